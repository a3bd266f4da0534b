import functools

import gymnasium
import numpy as np

from agents.environments.wrappers import ResetOptions
from agents.vector.process_batch import make_batch_env


class Starts(gymnasium.Env):
    """Starts where the options say, and ends after two steps."""

    observation_space = gymnasium.spaces.Box(-1, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.start = 0, (options or {}).get("start", -1)
        return np.array([self.start], np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.array([self.start], np.float32), 0.0, self.steps == 2, False, {}


def make(start):
    return ResetOptions(Starts(), {"start": start})


def test_every_reset_of_a_batch_gets_the_options():
    envs = make_batch_env([functools.partial(make, start) for start in (3, 5)])
    try:
        observ, _ = envs.reset(seed=0)
        assert observ[:, 0].tolist() == [3, 5]
        for _ in range(5):  # Beyond the ends of two episodes.
            observ, *_ = envs.step(np.zeros(2, np.int64))
            assert observ[:, 0].tolist() == [3, 5]
    finally:
        envs.close()


def test_options_of_a_caller_have_precedence():
    observ, _ = make(3).reset(options={"start": 7})
    assert observ[0] == 7


def test_the_spec_knows_the_options():
    env = ResetOptions(gymnasium.make("CartPole-v1"), {"low": -0.01, "high": 0.01})
    again = gymnasium.make(env.spec)
    observ, _ = again.reset(seed=1)
    assert np.abs(observ).max() <= 0.01
