"""What tests of several wrappers share."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces


class Script(gymnasium.Env):
    """Returns given observations in one reused buffer and rewards 1, 2, ...; records actions."""

    def __init__(
        self, observs, space, action_space=None, terminated_at=None, truncated_at=None, rewards=None
    ):
        self.observation_space = space
        self.action_space = action_space or spaces.Discrete(3)
        self.observs, self.rewards = observs, rewards
        self.terminated_at, self.truncated_at = terminated_at, truncated_at
        self.buffer = None
        self.actions, self.resets = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append(options)
        self.time = 0
        return self.observe(), {"time": 0}

    def step(self, action):
        self.actions.append(action)
        self.time += 1
        reward = self.rewards[self.time - 1] if self.rewards else float(self.time)
        ends = self.time == self.terminated_at, self.time == self.truncated_at
        return self.observe(), reward, *ends, {"time": self.time}

    def observe(self):
        observ = self.observs[min(self.time, len(self.observs) - 1)]
        if not isinstance(observ, np.ndarray):
            return observ
        if self.buffer is None:
            self.buffer = observ.copy()
        self.buffer[...] = observ
        return self.buffer


@pytest.fixture(scope="session")
def script():
    """The class of an environment that follows a script."""
    return Script


@pytest.fixture(scope="session")
def play():
    """A function that returns copies of all observations, those of resets included."""

    def play(env, actions, seed=None):
        observs = [np.copy(env.reset(seed=seed)[0])]
        for action in actions:
            observ, _, terminated, truncated, _ = env.step(action)
            observs.append(np.copy(observ))
            if terminated or truncated:
                observs.append(np.copy(env.reset()[0]))
        return observs

    return play


@pytest.fixture(scope="session")
def frames():
    """A function that returns observations [...] of ones, twos, threes and so on."""

    def frames(shape, dtype=np.float32, count=8):
        return [np.full(shape, index + 1, dtype) for index in range(count)]

    return frames
