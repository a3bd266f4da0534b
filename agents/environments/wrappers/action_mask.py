"""Action masks, moved from infos into observations, where policies find them."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset, Step
from agents.errors import UnsupportedSpaceError
from agents.types import Env, Info, NestedArray, Options, Space

KEY = "action_mask"


class ActionMask(gymnasium.Wrapper, RecordConstructorArgs):
    """Adds the mask from the infos to the observations, as the key `action_mask`.

    Observations of a Dict space keep their keys; others become `{"observ": ..., "action_mask": ...}`.
    Observations that have the key already stay as they are.

    The mask is int8 [K], 1 for a valid action: K is the number of actions of a Discrete space, or
    the sum over the choices of a MultiDiscrete one. The infos of `reset` and `step` hold it in this
    form, or as one array per choice.

    The last step of an episode needs no mask; its default is zeros. A mask of zeros at other steps
    is a warning.
    """

    def __init__(self, env: Env):
        """Initializes the wrapper.

        Args:
          env: Environment with Discrete or MultiDiscrete actions.

        Raises:
          UnsupportedSpaceError: The actions are neither Discrete nor MultiDiscrete, or the observed
            mask does not fit them.
        """
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        actions, space = env.action_space, env.observation_space
        self._size = mask_size(actions)
        self._has_keys = isinstance(space, spaces.Dict)
        keys = space.spaces if isinstance(space, spaces.Dict) else {"observ": space}
        self._observes_mask = KEY in keys
        if self._observes_mask:
            check_action_mask(space, actions)
        else:
            self.observation_space = spaces.Dict({**keys, KEY: spaces.MultiBinary(self._size)})

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Returns the observation with its mask.

        Raises:
          ValueError: The infos hold no mask, or one that does not fit the actions.
        """
        observ, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observ, info, ends=False), info

    def step(self, action: NestedArray) -> Step:
        """Returns the observation with its mask.

        Raises:
          ValueError: The infos hold no mask although the episode continues, or one that does not
            fit the actions.
        """
        observ, reward, terminated, truncated, info = self.env.step(action)
        observ = self._with_mask(observ, info, bool(terminated or truncated))
        return observ, reward, terminated, truncated, info

    def _with_mask(self, observ: NestedArray, info: Info, ends: bool) -> NestedArray:
        """Returns an observation with its mask; `ends` says that it is the last of an episode."""
        if self._observes_mask:
            mask = np.asarray(observ.get(KEY) if isinstance(observ, dict) else None)
        else:
            is_missing = ends and KEY not in info
            mask = np.zeros(self._size, np.int8) if is_missing else self._mask(info)  # [K]
            observ = {**(observ if self._has_keys else {"observ": observ}), KEY: mask}
        if ends or mask.shape != (self._size,):  # The check of all data reports other shapes.
            return observ
        if blocks(mask, self.action_space):
            warnings.warn(
                f"action_mask: no action of {self.action_space} is valid at a step of {self.env}, so the policy "
                "takes any: allow one, such as waiting, or end the episode before",
                stacklevel=2,
            )
        return observ

    def _mask(self, info: Info) -> np.ndarray:
        """Returns the mask in the infos, int8 [K]."""
        if KEY not in info:
            found = ", ".join(sorted(map(str, info))) or "nothing"
            raise ValueError(f"action_mask: the infos of {self.env} must hold '{KEY}', got {found}")
        value = info[KEY]
        # [K], or [number of actions] for each choice.
        parts = value if isinstance(value, list | tuple) else [value]
        mask = np.concatenate([np.ravel(part) for part in parts])  # [K]
        if mask.shape != (self._size,) or not np.isin(mask, (0, 1)).all():
            raise ValueError(
                f"action_mask: expected {self._size} values of 0 or 1, one for each action of "
                f"{self.action_space}, got {len(mask)}: {value}"
            )
        return mask.astype(np.int8)


def check_action_mask(observation_space: Space, action_space: Space) -> None:
    """Checks that observations hold a mask [K] that fits the actions.

    Raises:
      UnsupportedSpaceError: They hold none, or one of another size or dtype.
    """
    size = mask_size(action_space)
    found = (
        observation_space.spaces.get(KEY) if isinstance(observation_space, spaces.Dict) else None
    )
    if found is None or found.shape != (size,) or found.dtype not in (np.int8, np.bool_):
        raise UnsupportedSpaceError(
            f"action_mask: expected observations with '{KEY}', MultiBinary({size}), got {found or observation_space}"
        )


def blocks(mask: np.ndarray, action_space: Space) -> np.ndarray:
    """Returns whether masks [..., K] leave a choice of an action space without a valid action, bool [...]."""
    choices = (
        action_space.nvec.ravel()
        if isinstance(action_space, spaces.MultiDiscrete)
        else [mask.shape[-1]]
    )
    starts = np.cumsum([0, *choices[:-1]])  # Of each choice in the mask.
    return np.asarray(~np.logical_or.reduceat(mask, starts, axis=-1).all(axis=-1))


def mask_size(space: Space) -> int:
    """Returns the number of elements K of a mask for an action space.

    Raises:
      UnsupportedSpaceError: The space is neither Discrete nor MultiDiscrete.
    """
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    raise UnsupportedSpaceError(
        f"action_mask: supported for Discrete and MultiDiscrete actions only, got {space}"
    )
