"""Gymnasium spaces as nested structures of arrays.

A leaf is a space whose elements are one array: Box, Discrete, MultiDiscrete or MultiBinary. Dict
and Tuple spaces nest them. Leaves have the order of `tf.nest` (dictionaries by sorted key), without
TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError

if TYPE_CHECKING:
    from agents.types import Leaves, NestedArray, Space

# A Box, Discrete, MultiDiscrete or MultiBinary. Gymnasium's types call the shape of any space
# optional, that of a leaf never is.
Leaf: TypeAlias = Any

# A bound of a leaf space: an array of the space's shape, or a scalar.
Bound: TypeAlias = "np.ndarray | np.integer | int"

LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)

# Values of the setting `policy` that need finite bounds of actions.
_BOUNDED_POLICIES = ("squashed_gaussian", "beta")


def leaf_paths(space: Space) -> list[tuple[str | int, ...]]:
    """Returns where the leaves are: keys and indices, outermost first, in order of the leaves."""
    children: Iterable[tuple[str | int, Space]]
    if isinstance(space, spaces.Dict):
        children = [(key, space[key]) for key in sorted(space.spaces)]
    elif isinstance(space, spaces.Tuple):
        children = enumerate(space.spaces)
    else:
        return [()]
    return [(key, *path) for key, child in children for path in leaf_paths(child)]


def leaf_spaces(space: Space) -> list[Leaf]:
    """Returns the leaves of a space, in order.

    Raises:
      UnsupportedSpaceError: A leaf is not an array, such as Text, Graph or Sequence, or a key is
        no string; the message names it.
    """
    if isinstance(space, LEAVES):
        return [space]
    if isinstance(space, spaces.Dict):
        for key in space.spaces:
            if not isinstance(key, str):  # Files of runs have strings only.
                raise UnsupportedSpaceError(
                    f"unsupported space {space}: expected strings as keys, got {key!r}."
                )
        return [leaf for key in sorted(space.spaces) for leaf in leaf_spaces(space[key])]
    if isinstance(space, spaces.Tuple):
        return [leaf for child in space.spaces for leaf in leaf_spaces(child)]
    raise UnsupportedSpaceError(
        f"unsupported space {space}: its elements are not arrays of a fixed shape.\n"
        "Supported are Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of those. Remove or "
        "encode it in a wrapper, see the setting env_wrappers."
    )


def num_dimensions(space: Space) -> int:
    """Returns the number of dimensions of a space's elements; a Discrete space has one."""
    return sum(math.prod(leaf.shape) for leaf in leaf_spaces(space))


def check_action_space(space: Space) -> None:
    """Raises UnsupportedSpaceError, naming the space, for action spaces without a policy."""
    leaves = leaf_spaces(space)
    refused = [
        leaf
        for leaf in leaves
        if 0 in leaf.shape or (isinstance(leaf, spaces.Box) and leaf.dtype.kind != "f")
    ]
    if leaves and not refused:
        return
    unsupported: Space = refused[0] if refused else space
    within = "" if unsupported is space else f", a part of {space}"
    raise UnsupportedSpaceError(
        f"unsupported action space {unsupported}{within}.\n"
        "Supported are Box of floats, Discrete, MultiDiscrete and MultiBinary, and Dict and Tuple of those, none empty."
    )


def check_bounded(space: Space, algorithm: str) -> None:
    """Raises UnsupportedSpaceError for actions that are not all Boxes with finite bounds."""
    for leaf in leaf_spaces(space):
        if not (isinstance(leaf, spaces.Box) and leaf.is_bounded()):
            raise UnsupportedSpaceError(
                f"{algorithm} needs actions of bounded Boxes, got the action space {space}.\n"
                "PPO takes discrete actions: leave out --config=sac and --algorithm=sac. Bound a Box "
                "with a wrapper."
            )


def check_policy(space: Space, policy: str) -> None:
    """Raises UnsupportedSpaceError for an action space that the setting `policy` does not fit."""
    boxes = [leaf for leaf in leaf_spaces(space) if isinstance(leaf, spaces.Box)]
    if policy != "gaussian" and not boxes:
        raise UnsupportedSpaceError(
            f"policy '{policy}' needs actions in a Box, got the action space {space}.\n"
            "Leave policy out: Discrete, MultiDiscrete and MultiBinary have their own distributions."
        )
    unbounded = [box for box in boxes if not box.is_bounded()]
    if policy in _BOUNDED_POLICIES and unbounded:
        raise UnsupportedSpaceError(
            f"policy '{policy}' needs finite bounds, got the action space {unbounded[0]}.\n"
            "Set policy to 'gaussian', or bound the actions with a wrapper (see env_wrappers)."
        )


def flatten(space: Space, value: NestedArray) -> list[NestedArray]:
    """Returns the leaves of an element of `space`, [...], or of a batch of elements, [B, ...].

    Args:
      space: The space of one element.
      value: A structure like that of `space`, of arrays, tensors or anything else.

    Returns:
      The leaves as they are, in the order of `leaf_spaces`.
    """
    if isinstance(space, spaces.Dict):
        return [leaf for key in sorted(space.spaces) for leaf in flatten(space[key], value[key])]
    if isinstance(space, spaces.Tuple):
        return [
            leaf
            for child, part in zip(space.spaces, value, strict=True)
            for leaf in flatten(child, part)
        ]
    return [value]


def pack(space: Space, leaves: Iterable[NestedArray]) -> NestedArray:
    """Returns leaves, [...] or [B, ...], in the structure of `space`; the inverse of `flatten`."""
    return _pack(space, iter(leaves))


def _pack(space: Space, leaves: Iterator[NestedArray]) -> NestedArray:
    if isinstance(space, spaces.Dict):
        return {key: _pack(space[key], leaves) for key in sorted(space.spaces)}
    if isinstance(space, spaces.Tuple):
        return tuple(_pack(child, leaves) for child in space.spaces)
    return next(leaves)


def element(space: Space, leaves: Leaves, row: int) -> NestedArray:
    """Returns one element of a batch in the types that environments take and return.

    Args:
      space: The space of one element.
      leaves: Arrays [B, ...], one per leaf, in order.
      row: Index of the element, in [0, B).

    Returns:
      Structure of arrays [...], also where they have no dimensions, and of NumPy integers for
      Discrete.
    """
    return next(elements(space, [batch[row : row + 1] for batch in leaves]))


def elements(space: Space, leaves: Leaves) -> Iterator[NestedArray]:
    """Yields all elements of a batch as views of its leaves [B, ...]; see `element`."""
    # The usual case is a single leaf; packing takes as long as the step of a light environment.
    if isinstance(space, LEAVES):
        return _leaf_elements(space, leaves[0])
    columns = [
        _leaf_elements(leaf, batch) for leaf, batch in zip(leaf_spaces(space), leaves, strict=True)
    ]
    return (pack(space, row) for row in zip(*columns, strict=True))


def rows_of(space: Space, leaves: Leaves, mask: np.ndarray) -> np.ndarray:
    """Returns the elements of a batch, leaves [B, ...], as an array of objects [B].

    It has None where `mask`, bool [B], is not set, as `final_obs` in Gymnasium's infos.
    """
    rows = np.full(len(mask), None, object)  # [B]
    for row in map(int, np.flatnonzero(mask)):
        rows[row] = element(space, leaves, row)
    return rows


def _leaf_elements(space: Leaf, batch: np.ndarray) -> Iterator[NestedArray]:
    if isinstance(space, spaces.Discrete) or space.shape:
        return iter(batch)
    return (batch[row, ...] for row in range(len(batch)))  # Arrays []; iterating yields scalars.


def bounds(space: Leaf) -> tuple[Bound, Bound]:
    """Returns the smallest and largest finite elements of a leaf space.

    Returns:
      `(low, high)`, both inclusive, of the space's shape or scalars.
    """
    if isinstance(space, spaces.Box):
        if np.issubdtype(space.dtype, np.floating):
            limits = np.finfo(space.dtype)
            return np.maximum(space.low, limits.min), np.minimum(space.high, limits.max)
        return space.low, space.high
    if isinstance(space, spaces.MultiBinary):
        return 0, 1
    size = space.n if isinstance(space, spaces.Discrete) else space.nvec
    return space.start, space.start + size - 1


def exceeds_float32(space: Leaf) -> bool:
    """Whether a leaf has numbers that float32 rounds: a Box of float64, or of integers of 32 bits or more."""
    kind, itemsize = space.dtype.kind, space.dtype.itemsize
    is_wide = (kind in "iu" and itemsize >= 4) or (kind == "f" and itemsize > 4)
    return isinstance(space, spaces.Box) and is_wide
