"""Messages of plain data: what a worker sends cannot execute code in its parent.

Plain are None, booleans, numbers, strings, bytes, and lists, tuples, sets and dictionaries of plain
values, as well as NumPy's arrays and scalars of numbers, strings and dates; no subclasses. The format
is pickle's, with nothing to call but the functions of this module.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np

# Any value, plain or not.
Value: TypeAlias = Any

MAX_DEPTH = 50
MAX_REPR_LENGTH = 200

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, bytearray})
_SEQUENCES = frozenset({list, tuple, set, frozenset})
_DTYPE_KINDS = "biufcmMSU"
_EXPECTED = "None, numbers, strings, NumPy arrays, or lists, tuples, sets and dictionaries of those"


class NotPlainError(TypeError):
    """A value that is not plain data, or bytes that are no message of plain data."""


def dumps(value: Value, describe: bool = False) -> bytes:
    """Returns a plain value as bytes.

    Args:
      value: The value.
      describe: Whether to send strings for parts that are not plain; see `as_plain`.

    Raises:
      NotPlainError: A part of the value is not plain; the message names its type.
    """
    plain = _map_parts(value, _describe if describe else _refuse)
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(plain)
    return buffer.getvalue()


def loads(data: bytes) -> Value:
    """Returns the value of a message.

    Raises:
      NotPlainError: The bytes are not of `dumps`; nothing of them was executed.
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except NotPlainError:
        raise
    except Exception as error:  # Damaged bytes raise anything.
        raise NotPlainError(f"damaged message: {type(error).__name__}: {error}") from error


def as_plain(value: Value) -> Value:
    """Returns a value with a string for every part that is not plain: the start of its `repr`."""
    return _map_parts(value, _describe)


def _map_parts(value: Value, replace: Callable[[Value], Value], depth: int = 0) -> Value:
    """Returns a value with `replace(part)` for every part that is not plain."""
    kind, atoms = type(value), _ATOMS
    # Loops, and calls for containers only, take a third of the time of plain recursion.
    if kind is dict and depth < MAX_DEPTH:
        mapped = {}
        for key, item in value.items():
            if type(key) not in atoms:
                key = _map_parts(key, replace, depth + 1)
            mapped[key] = item if type(item) in atoms else _map_parts(item, replace, depth + 1)
        return mapped
    if kind in _SEQUENCES and depth < MAX_DEPTH:
        items = []
        for item in value:
            items.append(item if type(item) in atoms else _map_parts(item, replace, depth + 1))
        return kind(items)
    return value if kind in atoms or _is_plain_array(value) else replace(value)


def _is_plain_array(value: Value) -> bool:
    is_array = type(value) is np.ndarray or isinstance(value, np.generic)
    return is_array and value.dtype.kind in _DTYPE_KINDS


def _refuse(value: Value) -> NoReturn:
    what = f"values nested more than {MAX_DEPTH} deep"
    if type(value) is not dict and type(value) not in _SEQUENCES:
        name = type(value).__qualname__
        what = f"{name} of dtype {value.dtype}" if isinstance(value, np.ndarray) else name
    raise NotPlainError(f"{what} cannot be sent between processes; expected {_EXPECTED}")


def _describe(value: Value) -> Value:
    try:
        return str.__getitem__(repr(value), slice(MAX_REPR_LENGTH))
    except BaseException:  # Of the environment's own classes.
        return f"<{type(value).__qualname__}>"


class _Pickler(pickle.Pickler):
    """Writes arrays as calls of functions of this module, whatever NumPy's version."""

    def reducer_override(self, obj: Value) -> Any:
        if isinstance(obj, np.ndarray):
            return _make_array, (obj.dtype.str, obj.shape, obj.tobytes())
        if isinstance(obj, np.generic):
            return _make_scalar, (obj.dtype.str, obj.tobytes())
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Admits no functions and classes but those that plain data needs."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise NotPlainError(
                f"a message names {module}.{name}, which is not plain data"
            ) from None


def _make_array(dtype: str, shape: tuple[int, ...], data: bytes) -> np.ndarray:
    checked = _checked_dtype(dtype)
    if min(shape, default=0) < 0 or math.prod(shape) * checked.itemsize != len(data):
        raise NotPlainError(f"a message has {len(data)} bytes for an array {dtype} {shape}")
    array: np.ndarray = np.ndarray(shape, checked, data)
    writable: np.ndarray = array.copy()
    return writable


def _make_scalar(dtype: str, data: bytes) -> np.generic:
    scalar: np.generic = np.ndarray((), _checked_dtype(dtype), data)[()]
    return scalar


def _checked_dtype(name: str) -> np.dtype:
    dtype = np.dtype(name)
    if dtype.kind not in _DTYPE_KINDS:
        raise NotPlainError(f"a message has an array of dtype {dtype}, which is not plain data")
    return dtype


_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
    **{(__name__, function.__name__): function for function in (_make_array, _make_scalar)},
}
