"""Observations and rewards in 32 bits."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset, Step
from agents.errors import UnsupportedSpaceError
from agents.types import Env, NestedArray, Options, Space

_DTYPES_32_BIT: dict[np.dtype, np.dtype] = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
}
_LARGEST_FLOAT = float(np.finfo(np.float32).max)


class ConvertTo32Bit(gymnasium.Wrapper, RecordConstructorArgs):
    """Converts 64-bit observations and the reward to 32 bits; raises for values that do not fit.

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

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Returns the converted observation.

        Raises:
          ValueError: A float is not finite in 32 bits, or an integer does not fit; the message
            names the leaf.
        """
        observ, info = self.env.reset(seed=seed, options=options)
        return _to_32_bit(observ, "observation"), info

    def step(self, action: NestedArray) -> Step:
        """Returns the converted observation and reward.

        Raises:
          ValueError: A float is not finite in 32 bits, or an integer does not fit; the message
            names the leaf.
        """
        observ, reward, terminated, truncated, info = self.env.step(action)
        if not abs(float(reward)) <= _LARGEST_FLOAT:  # True for NaN as well.
            raise ValueError(f"ConvertTo32Bit: the reward must be finite in 32 bits, got {reward}")
        return _to_32_bit(observ, "observation"), np.float32(reward), terminated, truncated, info


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
    return (
        _box_32_bit(space, dtype)
        if isinstance(space, spaces.Box)
        else _categories_32_bit(space, dtype)
    )


def _box_32_bit(space: spaces.Box, dtype: np.dtype) -> spaces.Box:
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
