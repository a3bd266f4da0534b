"""Makes environments so that they keep this library's promises, whatever family they are of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agents.families import bullet

# What environments' entry points begin with that keep something of the past when they are reset with a seed.
_NEVER_QUITE_RESET = ("gymnasium.envs.box2d.bipedal_walker:", bullet.PREFIX)


class RebuildOnSeed(gymnasium.Wrapper):
    """Makes the environment anew where it is reset with a seed, so that equal seeds give equal episodes."""

    def __init__(self, make: Callable[[], gymnasium.Env]):
        """Makes the first environment; `make` makes one."""
        super().__init__(make())
        # Those of the first one, in which whoever samples may have put a seed.
        self.action_space, self.observation_space = self.env.action_space, self.env.observation_space
        self._make = make
        self._is_new = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the environment, or a new one where there is a seed."""
        if seed is not None and not self._is_new:
            self.env.close()
            self.env = self._make()
        self._is_new = False
        return self.env.reset(seed=seed, options=options)


def make(spec: EnvSpec, **kwargs: Any) -> gymnasium.Env:
    """Makes an environment.

    Args:
      spec: What Gymnasium registered it as.
      **kwargs: For `gymnasium.make`.
    """

    def make_one() -> gymnasium.Env:
        env = gymnasium.make(spec, disable_env_checker=True, **kwargs)
        if _begins(spec, bullet.PREFIX):
            bullet.connect(env.unwrapped)
        return env

    return RebuildOnSeed(make_one) if _begins(spec, _NEVER_QUITE_RESET) else make_one()


def _begins(spec: EnvSpec, prefix: str | tuple[str, ...]) -> bool:
    return isinstance(spec.entry_point, str) and spec.entry_point.startswith(prefix)
