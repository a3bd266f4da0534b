"""Gymnasium spaces as structures of arrays.

A leaf is a space whose elements are one array: Box, Discrete, MultiDiscrete or MultiBinary. Dict and Tuple spaces nest
them; their leaves are ordered as `tf.nest` orders them (dictionaries by sorted key), without importing TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from agents.tools.errors import UnsupportedSpaceError

LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def leaf_spaces(space: spaces.Space) -> list[Any]:
    """The leaves of a space, in order.

    Raises:
      UnsupportedSpaceError: For a space that is no array, such as Text, Graph or Sequence; the message names it.
    """
    if isinstance(space, LEAVES):
        return [space]
    if isinstance(space, spaces.Dict):
        return [leaf for key in sorted(space.spaces) for leaf in leaf_spaces(space[key])]
    if isinstance(space, spaces.Tuple):
        return [leaf for child in space.spaces for leaf in leaf_spaces(child)]
    raise UnsupportedSpaceError(
        f"unsupported space {space}: its elements are not arrays of a fixed shape.\n"
        "Supported are Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of those."
    )


def check_action_space(space: spaces.Space) -> None:
    """Raises UnsupportedSpaceError for action spaces that there is no policy for; the message names the space."""
    leaves = leaf_spaces(space)
    unsupported = next((leaf for leaf in leaves if not _has_policy(leaf)), None if leaves else space)
    if unsupported is None:
        return
    within = "" if unsupported is space else f", a part of {space}"
    raise UnsupportedSpaceError(
        f"unsupported action space {unsupported}{within}.\n"
        "Supported are Box of floats, Discrete, MultiDiscrete and MultiBinary, and Dict and Tuple of those, none empty."
    )


def _has_policy(leaf: Any) -> bool:
    if isinstance(leaf, spaces.Box) and not np.issubdtype(leaf.dtype, np.floating):
        return False
    return 0 not in leaf.shape


def flatten(space: spaces.Space, value: Any) -> list[Any]:
    """The arrays in `value`, an element (or a batch of elements) of `space`, one a leaf, in order."""
    if isinstance(space, spaces.Dict):
        return [leaf for key in sorted(space.spaces) for leaf in flatten(space[key], value[key])]
    if isinstance(space, spaces.Tuple):
        return [leaf for child, part in zip(space.spaces, value, strict=True) for leaf in flatten(child, part)]
    return [value]


def pack(space: spaces.Space, leaves: Iterable[Any]) -> Any:
    """The inverse of `flatten`: a structure like that of `space`, with the given leaves in order."""
    return _pack(space, iter(leaves))


def _pack(space: spaces.Space, leaves: Iterator[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _pack(space[key], leaves) for key in sorted(space.spaces)}
    if isinstance(space, spaces.Tuple):
        return tuple(_pack(child, leaves) for child in space.spaces)
    return next(leaves)


def element(space: spaces.Space, leaves: list[np.ndarray], row: int) -> Any:
    """One element of a batch, as environments take and give it: arrays, also of no dimensions; numbers for Discrete.

    Args:
      space: The space of one element.
      leaves: Arrays [B, ...], one a leaf, in order.
      row: Which one, in [0, B).
    """
    return next(elements(space, [batch[row : row + 1] for batch in leaves]))


def elements(space: spaces.Space, leaves: list[np.ndarray]) -> Iterator[Any]:
    """All elements of a batch, one after another, as views of the batch; see `element`."""
    if isinstance(space, LEAVES):  # The usual case; packing takes as long as a light environment's step.
        return _leaf_elements(space, leaves[0])
    columns = [_leaf_elements(leaf, batch) for leaf, batch in zip(leaf_spaces(space), leaves, strict=True)]
    return (pack(space, row) for row in zip(*columns, strict=True))


def _leaf_elements(space: spaces.Space, batch: np.ndarray) -> Iterator[Any]:
    if isinstance(space, spaces.Discrete) or space.shape:
        return iter(batch)
    return (batch[row, ...] for row in range(len(batch)))  # Iterating would give numbers.


def first_outside(batch: np.ndarray, low: Any, high: Any) -> int | None:
    """Index of the first row of a batch of a leaf's elements that is not within the space's bounds, or None.

    One comparison for the whole batch: `space.contains`, row by row, takes as long as stepping light environments.

    Args:
      batch: Array [B, ...]. NaN is in no space.
      low: See `bounds`.
      high: See `bounds`.
    """
    inside = (batch >= low) & (batch <= high)
    if np.count_nonzero(inside) == inside.size:  # A third of the time of `all`.
        return None
    return int(np.argmin(inside.reshape(len(batch), -1).all(axis=1)))


def bounds(space: Any) -> tuple[Any, Any]:
    """Smallest and largest finite elements of a leaf space, both inclusive, of the space's shape or scalars."""
    if isinstance(space, spaces.Box):
        if np.issubdtype(space.dtype, np.floating):
            limits = np.finfo(space.dtype)
            return np.maximum(space.low, limits.min), np.minimum(space.high, limits.max)
        return space.low, space.high
    if isinstance(space, spaces.MultiBinary):
        return 0, 1
    return space.start, space.start + (space.n if isinstance(space, spaces.Discrete) else space.nvec) - 1
