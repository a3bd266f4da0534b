"""Copies of values that go to several environments."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
from typing import Any

import numpy as np

# Usual types of values that can not be changed.
_ATOMS = frozenset(
    {type(None), bool, int, float, str, bytes, np.bool_, np.int64, np.float32, np.float64}
)
_CONTAINERS = (dict, list, set, collections.deque)


def own_copy(value: Any, copies: dict[int, Any] | None = None) -> Any:
    """Returns a copy of a value and its parts, for an owner that may change it.

    Dictionaries, lists, tuples, sets and dataclasses are copied part by part, and the arguments in
    a `functools.partial`. Other objects are copied as a whole by `copy.deepcopy`, or passed on as
    they are: functions and other callables, objects with a finalizer, such as open files, and
    objects that can't be copied, such as locks.

    Args:
      value: Anything.
      copies: Copies by the id of their original, for data that contain themselves.
    """
    kind = value.__class__
    if kind in _ATOMS:
        return value
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy()
    if kind is dict and not value:
        return {}  # Most infos.
    copies = {} if copies is None else copies
    if id(value) in copies:
        return copies[id(value)]
    try:
        return _copy(value, copies)
    except Exception:  # Also where parts are nested too deeply.
        return value


def _copy(value: Any, copies: dict[int, Any]) -> Any:
    if isinstance(value, functools.partial):
        args, keywords = own_copy(value.args, copies), own_copy(value.keywords, copies)
        return functools.partial(value.func, *args, **keywords)
    kind = type(value)
    if kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_make")):
        items = [own_copy(item, copies) for item in value]
        return tuple(items) if kind is tuple else kind._make(items)
    if callable(value) or hasattr(kind, "__del__") or isinstance(value, np.memmap):
        return value
    is_dataclass = dataclasses.is_dataclass(value) and hasattr(value, "__dict__")
    if not (is_dataclass or isinstance(value, _CONTAINERS)):
        return copy.deepcopy(value, copies)
    copies[id(value)] = copied = copy.copy(value)
    if isinstance(copied, set):
        return copied  # Its items can't be changed.
    parts: Any = copied if isinstance(copied, _CONTAINERS) else vars(copied)
    for key in parts if isinstance(parts, dict) else range(len(parts)):
        parts[key] = own_copy(parts[key], copies)
    return copied
