"""CartPole that crashes and stalls at random: `tests.faults.soaked_cartpole:SoakedCartPole-v1`."""

import os
import signal
import time

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv


class SoakedCartPole(CartPoleEnv):
    """Crashes, half of the time by killing its process, and sleeps, in random steps and resets."""

    def __init__(self, crash=0.0, reset_crash=0.0, stall=0.0, stall_seconds=0.0, render_mode=None):
        """Initializes the environment with the probabilities of its faults."""
        super().__init__(render_mode=render_mode)
        self._crash, self._reset_crash, self._stall = crash, reset_crash, stall
        self._stall_seconds = stall_seconds
        # Not of the seed: an environment that is restarted with it would crash in the same step.
        self._chance = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        self._crash_with(self._reset_crash)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._crash_with(self._crash)
        if self._chance.random() < self._stall:
            time.sleep(self._stall_seconds)
        return super().step(action)

    def _crash_with(self, probability):
        if self._chance.random() < probability:
            if self._chance.random() < 0.5:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the pole broke")


gymnasium.register(
    "SoakedCartPole-v1", SoakedCartPole, max_episode_steps=500, reward_threshold=475.0
)
