"""Options for every reset."""

from __future__ import annotations

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset
from agents.types import Env, Options


class ResetOptions(gymnasium.Wrapper, RecordConstructorArgs):
    """Passes options to every reset of the environment, those at the ends of episodes included."""

    def __init__(self, env: Env, options: Options):
        """Wraps an environment.

        Args:
          env: The environment.
          options: What `reset(options=...)` gets; options of a caller have precedence.
        """
        RecordConstructorArgs.__init__(self, options=options)
        gymnasium.Wrapper.__init__(self, env)
        self._options = options

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Resets the environment with the options."""
        return self.env.reset(seed=seed, options={**self._options, **(options or {})})
