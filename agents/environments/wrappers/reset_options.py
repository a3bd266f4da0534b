"""Options for every reset."""

from __future__ import annotations

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset
from agents.own_copy import own_copy
from agents.types import Env, Options


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
