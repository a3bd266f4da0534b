"""Wrappers that change how episodes start, and how long an action lasts."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset, Step, whole_number
from agents.own_copy import own_copy
from agents.types import Env, EnvConstructor, NestedArray, Options


class ActionRepeat(gymnasium.Wrapper, RecordConstructorArgs):
    """Repeats every action for `amount` steps or until the episode ends; sums the rewards.

    Each step gets a copy of the action, which the environment may change.
    """

    def __init__(self, env: Env, amount: int):
        """Initializes the wrapper.

        Args:
          env: Environment to wrap.
          amount: Number of its steps per action, at least 1.

        Raises:
          ValueError: The amount is not a whole number of at least 1.
        """
        RecordConstructorArgs.__init__(self, amount=amount)
        gymnasium.Wrapper.__init__(self, env)
        self._amount = whole_number("ActionRepeat: amount", amount, minimum=1)

    def step(self, action: NestedArray) -> Step:
        """Returns the last step's observation, flags and info, and the sum of the rewards."""
        observ, reward, terminated, truncated, info = self.env.step(own_copy(action))
        total = float(reward)
        for _ in range(self._amount - 1):
            if terminated or truncated:
                break
            observ, reward, terminated, truncated, info = self.env.step(own_copy(action))
            total += float(reward)
        return observ, total, terminated, truncated, info


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


class RebuildOnSeed(gymnasium.Wrapper):
    """Rebuilds the environment for every seeded reset, so that equal seeds give equal episodes.

    For environments whose `reset(seed=...)` keeps state from earlier episodes.
    """

    def __init__(self, make: EnvConstructor):
        """Makes the first environment.

        Args:
          make: Makes a new environment; the arguments of a `functools.partial` are copied for each.
        """
        self._make = own_copy(make)
        super().__init__(own_copy(self._make)())
        # The first environment's spaces are kept: a user may have seeded them.
        self.action_space, self.observation_space = (
            self.env.action_space,
            self.env.observation_space,
        )
        self._is_new = True

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Resets the environment; with a seed, a new one unless the present one was never reset."""
        if seed is not None and not self._is_new:
            self.env.close()
            self.env = own_copy(self._make)()
        self._is_new = False
        return self.env.reset(seed=seed, options=options)


class ResetOptions(gymnasium.Wrapper, RecordConstructorArgs):
    """Passes a copy of options to every reset of the environment, also at the ends of episodes."""

    def __init__(self, env: Env, options: Options):
        """Wraps an environment.

        Args:
          env: The environment.
          options: What `reset(options=...)` gets; options of a caller have precedence.
        """
        self._options = own_copy(options)
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, options=self._options)
        gymnasium.Wrapper.__init__(self, env)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Resets the environment with the options."""
        return self.env.reset(seed=seed, options=own_copy({**self._options, **(options or {})}))
