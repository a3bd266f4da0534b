"""Ranges and types of the numbers of one environment."""

from __future__ import annotations

import copy
from typing import TypeGuard

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Step
from agents.errors import UnsupportedSpaceError
from agents.types import Env, NestedArray, Space

_DTYPES_32_BIT: dict[np.dtype, np.dtype] = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
}
_LARGEST_FLOAT = float(np.finfo(np.float32).max)


class RangeNormalize(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """Maps the bounds of observations and actions to [-1, 1].

    Gymnasium's RescaleAction and RescaleObservation compute in the space's own dtype: rounding
    carries the extreme action of every fourth float32 range out of the environment's bounds,
    unsigned integers can't be rescaled, and equal bounds give NaN.

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

    def step(self, action: NestedArray) -> Step:
        """Takes a normalized action and returns the normalized observation."""
        if self._action_range is not None:
            low, span = self._action_range
            scaled = low + span * ((np.asarray(action, np.float64) + 1) / 2)  # float64 [A]
            action = np.asarray(scaled, self.action_space.dtype)
        return super().step(action)

    def observation(self, observation: NestedArray) -> NestedArray:
        """Returns the normalized observation."""
        if self._observ_range is None:
            return observation
        low, span = self._observ_range  # float64 [...]
        return np.asarray((observation - low) / span * 2 - 1, self.observation_space.dtype)


def _should_normalize(space: Space, name: str, enabled: bool | None) -> TypeGuard[spaces.Box]:
    """Returns whether RangeNormalize's argument `name` of value `enabled` applies to the space."""
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


class ConvertTo32Bit(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """Converts 64-bit observations and the reward to 32 bits; raises for values that do not fit.

    Gymnasium's DtypeObservation has one dtype, takes no Dict or Tuple spaces, makes a Box of a
    Discrete, and lets values overflow.

    float64 becomes float32, int64 int32, uint64 uint32, also inside of Dict and Tuple spaces; other
    dtypes stay. Bounds beyond 32 bits become infinite, for integers the dtype's own. The reward is
    a `numpy.float32`.
    """

    def __init__(self, env: Env):
        """Initializes the wrapper.

        Args:
          env: Environment whose observation space is a Box, Discrete, MultiDiscrete, MultiBinary,
            or a Dict or Tuple of those.

        Raises:
          UnsupportedSpaceError: The observation space is of another kind, or has more values than
            32 bits can count.
        """
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self.observation_space = _space_32_bit(env.observation_space)

    def step(self, action: NestedArray) -> Step:
        """Returns the converted observation and reward.

        Raises:
          ValueError: A float is not finite in 32 bits, or an integer does not fit; the message
            names the leaf.
        """
        observ, reward, terminated, truncated, info = super().step(action)
        if not abs(float(reward)) <= _LARGEST_FLOAT:  # True for NaN as well.
            raise ValueError(f"ConvertTo32Bit: the reward must be finite in 32 bits, got {reward}")
        return observ, np.float32(reward), terminated, truncated, info

    def observation(self, observation: NestedArray) -> NestedArray:
        """Returns the converted observation; raises ValueError as `step`."""
        return _to_32_bit(observation, "observation")


def _to_32_bit(value: NestedArray, name: str) -> NestedArray:
    """Converts an observation; `name` is its path for messages."""
    if isinstance(value, dict):
        return {key: _to_32_bit(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_to_32_bit(item, f"{name}[{index}]") for index, item in enumerate(value))
    array = np.asarray(value)  # [...]
    narrow, dtype = array, _DTYPES_32_BIT.get(array.dtype)
    if dtype is not None:
        with np.errstate(over="ignore"):  # An overflow is raised below.
            narrow = array.astype(dtype)
    if narrow.dtype.kind == "f":
        valid, expected = np.isfinite(narrow), "finite"  # bool [...]
    elif narrow is not array:
        valid, expected = narrow == array, f"within {narrow.dtype}"  # bool [...]
    else:
        return value
    if not valid.all():
        raise ValueError(
            f"ConvertTo32Bit: {name} must be {expected} in 32 bits, got {array[~valid].flat[0]}"
        )
    return narrow if isinstance(value, np.ndarray) else narrow[()]


def _space_32_bit(space: Space) -> Space:
    """Returns the space of the observations that `_to_32_bit` converts."""
    if isinstance(space, spaces.Dict):
        # Pairs, because Gymnasium sorts the keys of a dictionary.
        return spaces.Dict([(key, _space_32_bit(item)) for key, item in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_space_32_bit(item) for item in space.spaces])
    if isinstance(space, spaces.MultiBinary):
        return space
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        raise UnsupportedSpaceError(
            f"ConvertTo32Bit can't convert observations of the space {space}"
        )
    dtype = _DTYPES_32_BIT.get(np.dtype(space.dtype))
    if dtype is None:
        return space
    if not isinstance(space, spaces.Box):
        return _categories_32_bit(space, dtype)
    low, high = space.low, space.high  # [...]
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        low, high = (np.asarray(np.clip(bound, limits.min, limits.max)) for bound in (low, high))
    with np.errstate(over="ignore"):  # A float bound beyond 32 bits becomes an infinite one.
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)


def _categories_32_bit(
    space: spaces.Discrete | spaces.MultiDiscrete, dtype: np.dtype
) -> spaces.Discrete | spaces.MultiDiscrete:
    # Shape [] of a Discrete, [number of choices] of a MultiDiscrete.
    counts, start = (space.n if isinstance(space, spaces.Discrete) else space.nvec), space.start
    limits = np.iinfo(dtype)
    if (
        np.max(counts) > limits.max
        or np.min(start) < limits.min
        or np.max(start + (counts - 1)) > limits.max
    ):
        raise UnsupportedSpaceError(
            f"ConvertTo32Bit: {space} has values that do not fit into {dtype}"
        )
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(counts.astype(dtype), dtype.type, start=start.astype(dtype))
    # The Discrete of Gymnasium 1.1 takes no dtype.
    narrow = copy.deepcopy(space)
    narrow.dtype, narrow.n, narrow.start = dtype, dtype.type(counts), dtype.type(start)
    return narrow
