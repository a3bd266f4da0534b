"""A new environment for every seed."""

from __future__ import annotations

import gymnasium

from agents.environments.wrappers.interface import Reset
from agents.own_copy import own_copy
from agents.types import EnvConstructor, Options


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
