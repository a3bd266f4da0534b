"""Infos of a batch: infos of its environments, joined by key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from agents.types import Info


def batch_infos(row_infos: Iterable[tuple[int, Info]], num_envs: int) -> Info:
    """Joins infos of environments as Gymnasium's vector environments do, with any values.

    Numbers and arrays of a key become an array [B, ...], zeros in rows without the key;
    dictionaries become a dictionary of such arrays. All else becomes an array of objects [B], None
    in rows without the key: other values, and numbers and arrays of different shapes or kinds.
    `_key` is the mask of the rows with the key, bool [B]; an environment's own entry of that name
    is left out.

    Args:
      row_infos: Rows in the batch and their infos.
      num_envs: Number of environments B.
    """
    values_by_key: dict[Any, dict[int, Any]] = {}
    for row, info in row_infos:
        for key, value in info.items():
            values_by_key.setdefault(key, {})[row] = value
    masks: Info = {}
    for key, values in values_by_key.items():
        mask = masks.setdefault(f"_{key}", np.zeros(num_envs, bool))  # [B]
        mask[list(values)] = True
    infos: Info = {}
    for key, values in values_by_key.items():
        if key not in masks:
            infos[key] = _join(values, num_envs, key == "final_obs")
            infos[f"_{key}"] = masks[f"_{key}"]
    return infos


def _join(values: dict[int, Any], num_envs: int, as_objects: bool) -> Any:
    """Returns the values of a key, by row, as an array [B, ...] or a dictionary of arrays."""
    if not as_objects:
        try:
            if all(isinstance(value, dict) for value in values.values()):
                return batch_infos(values.items(), num_envs)
            return _stack(values, num_envs)
        except (OverflowError, RecursionError, TypeError, ValueError):
            pass
    objects = np.full(num_envs, None, object)  # [B]
    for row, value in values.items():
        objects[row] = value
    return objects


def _stack(values: dict[int, Any], num_envs: int) -> np.ndarray:
    """Returns numbers or arrays as one array [B, ...].

    Raises:
      TypeError: A value is neither a number nor an array.
      ValueError: Shapes or kinds differ.
      OverflowError: An integer exceeds 64 bits.
    """
    arrays = {}
    for row, value in values.items():
        is_number = type(value) in (int, float, bool) or isinstance(value, np.number)
        if not is_number and not isinstance(value, np.ndarray):
            raise TypeError
        arrays[row] = np.asarray(value, type(value) if is_number else None)  # [...]
    kinds = {array.dtype.kind for array in arrays.values()}
    dtype = np.result_type(*(array.dtype for array in arrays.values()))
    [shape] = {array.shape for array in arrays.values()}
    # Neither strings for numbers, nor floats for two kinds of integers.
    if dtype.kind not in kinds or (len(kinds) > 1 and not kinds <= set("biufc")):
        raise ValueError
    batch = np.zeros((num_envs, *shape), dtype)  # [B, ...]
    for row, array in arrays.items():
        batch[row] = array
    return batch
