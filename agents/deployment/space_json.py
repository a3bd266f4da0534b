"""Spaces as JSON, in a form that people read: in checkpoints, runs and exported policies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError
from agents.spaces import Bound, leaf_spaces

if TYPE_CHECKING:
    from agents.types import PlainData, Space

# Of an element of a space: a damaged one must not fill the memory.
_MAX_BYTES = 2**27


def spaces_to_json(observation_space: Space, action_space: Space) -> dict[str, PlainData]:
    """Returns both spaces by name, see `space_to_json`."""
    return {
        "observation_space": space_to_json(observation_space),
        "action_space": space_to_json(action_space),
    }


def space_to_json(space: Space) -> PlainData:
    """Returns a space as data that JSON has.

    Bounds that are the same everywhere are one number, missing ones null.

    Raises:
      UnsupportedSpaceError: A leaf is not an array.
    """
    if isinstance(space, spaces.Box):
        return {
            "type": "Box",
            "shape": list(space.shape),
            "dtype": str(space.dtype),
            "low": _bound_to_json(space.low),
            "high": _bound_to_json(space.high),
        }
    if isinstance(space, spaces.Discrete):
        return {
            "type": "Discrete",
            "n": int(space.n),
            "start": int(space.start),
            "dtype": str(np.dtype(space.dtype)),
        }
    if isinstance(space, spaces.MultiDiscrete):
        return {
            "type": "MultiDiscrete",
            "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
            "dtype": str(np.dtype(space.dtype)),
        }
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "shape": list(space.shape)}
    if isinstance(space, spaces.Dict):
        parts = {key: space_to_json(child) for key, child in space.spaces.items()}
        return {"type": "Dict", "spaces": parts}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [space_to_json(child) for child in space.spaces]}
    leaf_spaces(space)  # Raises.
    raise UnsupportedSpaceError(f"unsupported space {space}")


def space_from_json(data: PlainData) -> Space:
    """Returns the space of `space_to_json`.

    Raises:
      ValueError: The data is not of that function.
    """
    try:
        if _num_bytes(data) > _MAX_BYTES:
            raise ValueError(f"an element has more than {_MAX_BYTES:,} bytes")
        return _space(data)
    except (AssertionError, AttributeError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _num_bytes(data: PlainData) -> int:
    """Returns the bytes of an element, before anything of this size is allocated."""
    kind = data["type"]
    if kind == "Dict":
        return sum(map(_num_bytes, data["spaces"].values()))
    if kind == "Tuple":
        return sum(map(_num_bytes, data["spaces"]))
    if kind not in ("Box", "MultiBinary"):
        return 0  # As long as the data.
    shape = data["shape"]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"a shape of {shape}")
    size: int = math.prod(shape)
    return size * (_dtype(data).itemsize if kind == "Box" else 1)


def _dtype(data: PlainData) -> np.dtype:
    """Returns a type of numbers; refuses others, whose elements may have any size."""
    name = data["dtype"]
    dtype = np.dtype(name) if isinstance(name, str) else None
    if dtype is None or dtype.kind not in "biuf" or str(dtype) != name:
        raise ValueError(f"the type {name!r}, expected one of numbers")
    return dtype


def _space(data: PlainData) -> Space:
    kind = data["type"]
    if kind == "Box":
        dtype, shape = _dtype(data), tuple(data["shape"])
        low = _bound_from_json(data["low"], shape, dtype, missing=-np.inf)
        high = _bound_from_json(data["high"], shape, dtype, missing=np.inf)
        return spaces.Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        discrete = spaces.Discrete(data["n"], start=data["start"])
        discrete.dtype = _dtype(data)
        return discrete
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(data["nvec"], _dtype(data).type, start=np.array(data["start"]))
    if kind == "MultiBinary":
        shape = data["shape"]
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    if kind == "Dict":
        return spaces.Dict([(key, _space(part)) for key, part in data["spaces"].items()])
    if kind == "Tuple":
        return spaces.Tuple([_space(part) for part in data["spaces"]])
    raise ValueError(f"unknown type of space {kind!r}")


def _bound_to_json(bound: np.ndarray) -> PlainData:
    """Returns bounds [...] as nested lists, or as a number if all are the same."""
    if bound.size and np.all(bound == bound.flat[0]):
        bound = bound.flat[0]
    numbers = np.array(bound.tolist(), object)
    numbers[np.isinf(bound)] = None
    return numbers.tolist()


def _bound_from_json(
    bound: PlainData, shape: tuple[int, ...], dtype: np.dtype, missing: float
) -> Bound:
    """Returns the bounds [*shape] of `_bound_to_json`, with a value for missing ones."""
    numbers = np.array(bound, object)
    numbers = np.where(numbers == None, missing, numbers)  # noqa: E711 - Elements, not the array.
    full: np.ndarray = np.broadcast_to(numbers.astype(dtype), shape).copy()
    return full
