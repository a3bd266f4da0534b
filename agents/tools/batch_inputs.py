"""What is handed to a batch of environments: checked, with errors that name the environment by its index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.tools.errors import InvalidActionError
from agents.tools.spaces import bounds, first_outside


def batch_bounds(space: Any, num_envs: int) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest finite elements of a batch of a leaf space, both inclusive, [B, ...] of the space's type."""
    # Of the batch's shape: comparing with them takes a third of the time then.
    shape = (num_envs, *space.shape)
    low, high = (np.broadcast_to(np.asarray(bound, space.dtype), shape).copy() for bound in bounds(space))
    return low, high


def checked_actions(leaf: Any, space: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A leaf of a batch of actions, if all are in the leaf's space.

    Args:
      leaf: Anything that is an array [B, ...] to numpy.
      space: The leaf of the action space.
      low: See `batch_bounds`.
      high: See `batch_bounds`.

    Returns:
      Array [B, ...]: floating point actions have the type of the space, integers may have another integer type.

    Raises:
      InvalidActionError: Actions of another number, shape or type, or outside of the bounds.
    """
    try:
        batch = np.asarray(leaf)
    except ValueError:  # Rows of different shapes.
        batch = None
    if batch is None or batch.shape != low.shape:
        raise InvalidActionError(_describe_wrong_shape(low.shape, leaf))
    if batch.dtype.kind not in ("biuf" if low.dtype.kind == "f" else "biu"):
        raise InvalidActionError(f"Actions of type {batch.dtype} for {space}.")
    if low.dtype.kind == "f" and batch.dtype != low.dtype:  # 0.7 may be more than a float32 bound of 0.7.
        with np.errstate(over="ignore"):
            batch = batch.astype(low.dtype)
    index = first_outside(batch, low, high)
    if index is not None:
        raise InvalidActionError(f"The action {batch[index]} of environment {index} is not in {space}.")
    return batch


def seed_list(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int]:
    """Seeds of a reset, as Gymnasium's vector environments take them, one for each environment; -1 where there is none.

    Raises:
      ValueError: Another number of seeds than environments, or a negative seed.
    """
    if seed is None:
        return [-1] * num_envs
    seeds = range(seed, seed + num_envs) if isinstance(seed, int | np.integer) else seed
    if len(seeds) != num_envs:
        raise ValueError(f"A batch of {num_envs} environments needs as many seeds, got {len(seeds)}.")
    if any(one is not None and one < 0 for one in seeds):
        raise ValueError(f"Seeds must not be negative, got {list(seeds)}.")
    return [-1 if one is None else int(one) for one in seeds]


def _describe_wrong_shape(expected: tuple[int, ...], leaf: Any) -> str:
    shapes = [np.shape(action) for action in leaf] if np.iterable(leaf) else []
    if len(shapes) != expected[0]:
        return f"A batch of {expected[0]} environments needs as many actions, got {len(shapes)}."
    index = next(index for index, shape in enumerate(shapes) if shape != expected[1:])
    return f"The action of environment {index} has shape {shapes[index]}, it needs {expected[1:]}."
