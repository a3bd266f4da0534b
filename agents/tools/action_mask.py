"""Masks of the actions that are valid, from infos into observations, where policies see them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from agents.tools.errors import UnsupportedSpaceError

KEY = "action_mask"


class ActionMask(gymnasium.Wrapper, RecordConstructorArgs):
    """Observes `{"observ": ..., "action_mask": ...}`, with the mask from the infos of `reset` and `step`.

    The mask is int8 [N], 1 for a valid action: N is the number of actions of a Discrete space, or of all choices of a
    MultiDiscrete one, one after another. The infos may hold it as that, or as one array for each choice.

    An episode's last step needs no mask; where there is none, no action is valid.
    """

    def __init__(self, env: gymnasium.Env):
        """Wraps the environment.

        Raises:
          UnsupportedSpaceError: Its actions are neither Discrete nor MultiDiscrete.
        """
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._size = mask_size(env.action_space)
        self.observation_space = spaces.Dict({"observ": env.observation_space, KEY: spaces.MultiBinary(self._size)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Returns the observation with its mask.

        Raises:
          ValueError: The infos hold no mask, or one that does not fit the actions.
        """
        observ, info = self.env.reset(seed=seed, options=options)
        return {"observ": observ, KEY: self._mask(info)}, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Returns the observation with its mask; raises as `reset` does."""
        observ, reward, terminated, truncated, info = self.env.step(action)
        has_mask = KEY in info or not (terminated or truncated)
        mask = self._mask(info) if has_mask else np.zeros(self._size, np.int8)
        return {"observ": observ, KEY: mask}, reward, terminated, truncated, info

    def _mask(self, info: dict[str, Any]) -> np.ndarray:
        if KEY not in info:
            raise ValueError(
                f"action_mask: the infos of {self.env} must hold '{KEY}', got {', '.join(sorted(info)) or 'nothing'}"
            )
        value = info[KEY]
        parts = value if isinstance(value, list | tuple) else [value]
        mask = np.concatenate([np.ravel(part) for part in parts])  # [N]
        if mask.shape != (self._size,) or not np.isin(mask, (0, 1)).all():
            raise ValueError(
                f"action_mask: expected {self._size} values of 0 or 1, one for each action of "
                f"{self.action_space}, got {len(mask)}: {value}"
            )
        return mask.astype(np.int8)


def with_action_mask(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with masks in its observations, where they are not in there already.

    Raises:
      UnsupportedSpaceError: There are no masks for its actions, or the one in its observations does not fit them.
    """
    space = env.observation_space
    if isinstance(space, spaces.Dict) and KEY in space.spaces:
        check_action_mask(space, env.action_space)
        return env
    return ActionMask(env)


def check_action_mask(observation_space: spaces.Space, action_space: spaces.Space) -> None:
    """Raises UnsupportedSpaceError unless observations hold a mask that fits the actions."""
    size = mask_size(action_space)
    found = observation_space.spaces.get(KEY) if isinstance(observation_space, spaces.Dict) else None
    if found is None or found.shape != (size,) or found.dtype not in (np.int8, np.bool_):
        raise UnsupportedSpaceError(
            f"action_mask: expected observations with '{KEY}', MultiBinary({size}), got {found or observation_space}"
        )


def mask_size(space: spaces.Space) -> int:
    """Number of elements of a mask for these actions.

    Raises:
      UnsupportedSpaceError: They are neither Discrete nor MultiDiscrete.
    """
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    raise UnsupportedSpaceError(f"action_mask: there are masks for Discrete and MultiDiscrete actions, not for {space}")
