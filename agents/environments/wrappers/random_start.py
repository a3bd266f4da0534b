"""Random actions at the start of every episode."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset, whole_number
from agents.own_copy import own_copy
from agents.types import Env, Options


class RandomStart(gymnasium.Wrapper, RecordConstructorArgs):
    """Takes a random number of random actions at the start of every episode.

    The wrapper has its own random number generators. `reset(seed=...)` seeds them, so that equal
    seeds give equal episodes; other resets continue their streams. Sampling from `env.action_space`
    elsewhere does not affect them. If an episode ends during the random actions, the environment is
    reset and the remaining ones are taken in the next episode.
    """

    def __init__(self, env: Env, max_steps: int):
        """Initializes the wrapper.

        Args:
          env: Environment to wrap.
          max_steps: Largest number of random steps, drawn uniformly from [0, max_steps].

        Raises:
          ValueError: `max_steps` is not a whole number of at least 0.
        """
        RecordConstructorArgs.__init__(self, max_steps=max_steps)
        gymnasium.Wrapper.__init__(self, env)
        self._max_steps = whole_number("RandomStart: max_steps", max_steps, minimum=0)
        self._sampler = copy.deepcopy(env.action_space)
        self._seed(None)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Returns the observation and info after the random steps.

        Args:
          seed: Seed of the environment and of the random steps.
          options: For every reset of the environment that this one takes, a copy for each.
        """
        observ, info = self.env.reset(seed=seed, options=own_copy(options))
        if seed is not None:
            self._seed(seed)
        for _ in range(self._generator.integers(self._max_steps + 1)):
            observ, _, terminated, truncated, info = self.env.step(self._sampler.sample())
            if terminated or truncated:
                observ, info = self.env.reset(options=own_copy(options))
        return observ, info

    def _seed(self, seed: int | None) -> None:
        # The environment uses the seed itself; spawned children give streams that differ from its.
        steps, actions = np.random.SeedSequence(seed).spawn(2)
        self._generator = np.random.default_rng(steps)
        self._sampler.seed(int(actions.generate_state(1)[0]))
