"""Checks of a batch's arguments: actions, seeds and reset masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from gymnasium.error import ResetNeeded

from agents.environments.batch_bounds import BatchBounds
from agents.errors import InvalidActionError
from agents.spaces import flatten, leaf_spaces

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from agents.spaces import Leaf
    from agents.types import Leaves, NestedArray, Space


class ActionCheck:
    """Checks the actions of a batch, all environments at once."""

    def __init__(self, space: Space, num_envs: int):
        """Prepares for B = `num_envs` environments with this action space."""
        self._space = space
        self._leaves = [(leaf, BatchBounds(leaf, num_envs)) for leaf in leaf_spaces(space)]

    def __call__(self, actions: NestedArray) -> Leaves:
        """Returns the leaves [B, ...] of a batch of actions, if all are in their spaces.

        Floating point actions have the space's dtype, integers may have another integer dtype.

        Raises:
          InvalidActionError: Actions of the wrong number, shape or dtype, or out of bounds.
        """
        try:
            leaves = flatten(self._space, actions)
        except (LookupError, TypeError, ValueError):
            raise InvalidActionError(
                f"Expected actions in the structure of {self._space}, arrays with a row for each "
                f"environment, got {type(actions).__name__}."
            ) from None
        pairs = zip(leaves, self._leaves, strict=True)
        return [_checked(leaf, *known) for leaf, known in pairs]


def _checked(leaf: ArrayLike, space: Leaf, bounds: BatchBounds) -> np.ndarray:
    low = bounds.low  # [B, ...]
    try:
        batch = np.asarray(leaf)  # [B, ...]
    except ValueError:  # Rows of different shapes.
        raise InvalidActionError(_describe_wrong_shape(low.shape, leaf)) from None
    if batch.shape != low.shape:
        raise InvalidActionError(_describe_wrong_shape(low.shape, leaf))
    if batch.dtype.kind not in ("biuf" if low.dtype.kind == "f" else "biu"):
        raise InvalidActionError(f"Expected actions of {space}, got {batch.dtype}.")
    # A float64 0.7 may exceed a float32 bound of 0.7.
    if low.dtype.kind == "f" and batch.dtype != low.dtype:
        with np.errstate(over="ignore"):
            batch = batch.astype(low.dtype)  # [B, ...]
    index = bounds.first_outside(batch)
    if index is not None:
        raise InvalidActionError(
            f"The action {batch[index]} of environment {index} is not in {space}."
        )
    return batch


def check_reset(needs_reset: np.ndarray) -> None:
    """Raises ResetNeeded if an environment must be reset first; `needs_reset` is bool [B]."""
    if np.count_nonzero(needs_reset):
        raise ResetNeeded(
            f"Environment {np.argmax(needs_reset)} of the batch must be reset before it is stepped."
        )


def seed_list(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int]:
    """Returns one seed per environment, -1 for none, as Gymnasium's vector environments take them.

    Args:
      seed: One per environment, or the first of consecutive ones, or None.
      num_envs: Number of environments B.

    Raises:
      ValueError: The number of seeds is not B, or a seed is negative.
    """
    if seed is None:
        return [-1] * num_envs
    seeds = range(seed, seed + num_envs) if isinstance(seed, int | np.integer) else seed
    if len(seeds) != num_envs:
        raise ValueError(
            f"A batch of {num_envs} environments needs {num_envs} seeds, got {len(seeds)}."
        )
    if any(one is not None and one < 0 for one in seeds):
        raise ValueError(f"Seeds must not be negative, got {list(seeds)}.")
    return [-1 if one is None else int(one) for one in seeds]


def reset_mask(mask: np.ndarray | None, indices: Sequence[int] | None, num_envs: int) -> np.ndarray:
    """Returns the mask, bool [B], of the environments to reset; all of them by default.

    Args:
      mask: Such a mask, or None.
      indices: Indices of the environments instead, in [-B, B), or None.
      num_envs: Number of environments B.

    Raises:
      ValueError: A mask of the wrong shape or dtype, an index out of range, or both a mask and
        indices.
    """
    if indices is not None:
        if mask is not None:
            raise ValueError("Give the environments to reset by indices or by a mask, not by both.")
        if not all(-num_envs <= index < num_envs for index in indices):
            raise ValueError(f"Indices {list(indices)} must be in [-{num_envs}, {num_envs}).")
        mask = np.zeros(num_envs, bool)  # [B]
        mask[np.asarray(indices, int)] = True
    elif mask is None:
        return np.ones(num_envs, bool)  # [B]
    mask = np.asarray(mask)  # [B]
    if mask.shape != (num_envs,) or mask.dtype != bool:
        raise ValueError(
            f"A reset mask must be bool [{num_envs}], got {mask.dtype} {list(mask.shape)}."
        )
    return mask


def _describe_wrong_shape(expected: tuple[int, ...], leaf: ArrayLike) -> str:
    if isinstance(leaf, dict) or not np.iterable(leaf):
        return f"Actions of type {type(leaf).__name__}: expected an array {list(expected)}."
    shapes = [_shape(action) for action in leaf]
    if len(shapes) != expected[0]:
        return f"A batch of {expected[0]} environments needs as many actions, got {len(shapes)}."
    for index, shape in enumerate(shapes):
        if shape != expected[1:]:
            return f"The action of environment {index} has shape {shape}, expected {expected[1:]}."
    return f"Actions of shape {np.shape(leaf)}, expected {expected}."


def _shape(action: ArrayLike) -> tuple[int, ...] | str:
    """The shape of an action; "ragged" where its rows have different ones."""
    try:
        return np.shape(action)
    except ValueError:
        return "ragged"
