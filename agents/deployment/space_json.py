"""Spaces as JSON, in a form that people read: written into runs and exported policies."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError, UsageError
from agents.regular_files import read_regular, write_atomically
from agents.spaces import Bound, leaf_spaces

if TYPE_CHECKING:
    from agents.types import PlainData, Space

# Of files, in bytes, and of Boxes, in numbers: those of a damaged file must not fill the memory.
_MAX_BYTES = 10**8
_MAX_SIZE = 2**28


def save_spaces(path: Path, observation_space: Space, action_space: Space) -> None:
    """Writes the spaces of an environment into a file, unless it holds them already.

    Raises:
      OSError: It can't be written.
    """
    data = {
        "observation_space": space_to_json(observation_space),
        "action_space": space_to_json(action_space),
    }
    content = (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()
    if not path.exists() or read_regular(path, _MAX_BYTES) != content:
        write_atomically(path, content)


def load_spaces(path: Path) -> tuple[Space, Space]:
    """Returns the observation space and the action space in a file of `save_spaces`.

    Raises:
      FileNotFoundError: There is no such file.
      UsageError: It is no regular file, too large, or damaged.
    """
    text = read_regular(path, _MAX_BYTES)
    try:
        data = json.loads(text)
        return space_from_json(data["observation_space"]), space_from_json(data["action_space"])
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged ({error}); expected the spaces of a run") from None


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
        return _space(data)
    except (AssertionError, AttributeError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _space(data: PlainData) -> Space:
    kind = data["type"]
    if kind == "Box":
        dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
        if math.prod(shape) > _MAX_SIZE:
            raise ValueError(f"a Box of shape {shape}")
        low = _bound_from_json(data["low"], shape, dtype, missing=-np.inf)
        high = _bound_from_json(data["high"], shape, dtype, missing=np.inf)
        return spaces.Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        discrete = spaces.Discrete(data["n"], start=data["start"])
        discrete.dtype = np.dtype(data["dtype"])
        return discrete
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(
            data["nvec"], np.dtype(data["dtype"]).type, start=np.array(data["start"])
        )
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
    full: np.ndarray = np.broadcast_to(numbers, shape).astype(dtype)
    return full
