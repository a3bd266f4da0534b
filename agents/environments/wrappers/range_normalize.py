"""Observations and actions scaled to [-1, 1]."""

from __future__ import annotations

from typing import TypeGuard

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset, Step
from agents.types import Env, NestedArray, Options, Space


class RangeNormalize(gymnasium.Wrapper, RecordConstructorArgs):
    """Maps the bounds of observations and actions to [-1, 1].

    Gymnasium's RescaleAction and RescaleObservation are not used because they compute in the
    space's own dtype: rounding carries the extreme action of every third float32 range out of the
    environment's bounds, unsigned integers can't be rescaled, and equal bounds give NaN.

    Observations of integers become float32; a component with equal bounds becomes -1. Values
    outside of the bounds are not clipped, in either direction; put ClipAction around this wrapper
    for that.
    """

    def __init__(self, env: Env, observ: bool | None = None, action: bool | None = None):
        """Initializes the wrapper.

        Args:
          env: Environment to wrap.
          observ: Whether to normalize observations; None for those of a Box with finite bounds.
          action: Whether to normalize actions; None for those of a Box of floats with finite
            bounds.

        Raises:
          ValueError: An argument is True and the bounds are infinite, the space is not a Box, or
            actions are integers; or an argument is none of None, True and False.
        """
        RecordConstructorArgs.__init__(self, observ=observ, action=action)
        gymnasium.Wrapper.__init__(self, env)
        self._observ_range = self._action_range = None
        if _should_normalize(env.observation_space, "observ", observ):
            low, span = self._observ_range = _range(env.observation_space)  # float64 [...]
            # Equal bounds: the difference is zero, whatever it is divided by.
            self._observ_range = low, np.where(span == 0, 1, span)
            self.observation_space = _unit_box(env.observation_space)
        if _should_normalize(env.action_space, "action", action):
            low, span = self._action_range = _range(env.action_space)  # float64 [A]
            # The nearest float64 span may exceed the upper bound by rounding; the next smaller one
            # can't.
            beyond = low + span > np.asarray(env.action_space.high, np.float64)  # bool [A]
            self._action_range = low, np.where(beyond, np.nextafter(span, 0), span)
            self.action_space = _unit_box(env.action_space)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Returns the normalized observation."""
        observ, info = self.env.reset(seed=seed, options=options)
        return self._normalize(observ), info

    def step(self, action: NestedArray) -> Step:
        """Takes a normalized action and returns the normalized observation."""
        if self._action_range is not None:
            low, span = self._action_range
            scaled = low + span * ((np.asarray(action, np.float64) + 1) / 2)  # float64 [A]
            action = np.asarray(scaled, self.action_space.dtype)
        observ, reward, terminated, truncated, info = self.env.step(action)
        return self._normalize(observ), reward, terminated, truncated, info

    def _normalize(self, observ: NestedArray) -> NestedArray:
        if self._observ_range is None:
            return observ
        low, span = self._observ_range  # float64 [...]
        return np.asarray((observ - low) / span * 2 - 1, self.observation_space.dtype)


def _should_normalize(space: Space, name: str, enabled: bool | None) -> TypeGuard[spaces.Box]:
    """Whether RangeNormalize's argument `name` of value `enabled` applies to the space."""
    if enabled is not None and not isinstance(enabled, bool):
        raise ValueError(f"RangeNormalize: {name} must be None, True or False, got {enabled!r}")
    if enabled is False:
        return False
    obstacle = None
    if not isinstance(space, spaces.Box):
        obstacle = "not a Box"
    elif name == "action" and space.dtype.kind != "f":
        obstacle = "not of floats"
    elif not (space.is_bounded() and np.isfinite(_range(space)[1]).all()):
        obstacle = "not of finite range"
    if enabled and obstacle:
        raise ValueError(
            f"RangeNormalize: {name}=True needs a Box with finite bounds; {space} is {obstacle}"
        )
    return obstacle is None


def _range(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lower bound of a Box and its span (upper minus lower), both float64 [...]."""
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return low, high - low


def _unit_box(space: spaces.Box) -> spaces.Box:
    """Returns a Box of the same shape [...] with the bounds -1 and 1, of floats."""
    return spaces.Box(
        -1, 1, space.shape, space.dtype.type if space.dtype.kind == "f" else np.float32
    )
