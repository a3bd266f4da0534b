"""Spaces as JSON, in a form that people read: written into runs and exported policies."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError, UsageError
from agents.regular_files import read_regular, write_atomically
from agents.settings.validation import abbreviate
from agents.spaces import Bound, leaf_spaces

if TYPE_CHECKING:
    from agents.types import PlainData, Space

# Bytes of a file, and of an element of its spaces: a damaged one must not fill the memory.
_MAX_FILE_BYTES = 2**25
_MAX_BYTES = 2**27


def save_spaces(path: Path, observation_space: Space, action_space: Space) -> None:
    """Writes the spaces of an environment into a file, with a checksum, unless it holds them.

    Raises:
      OSError: It can't be written.
    """
    data = spaces_to_json(observation_space, action_space)
    data["sha256"] = _checksum(data)
    content = (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()
    if not path.exists() or read_regular(path, _MAX_FILE_BYTES) != content:
        write_atomically(path, content)


def load_spaces(path: Path, recorded: Mapping[str, PlainData] | None = None) -> tuple[Space, Space]:
    """Returns the observation space and the action space in a file of `save_spaces`.

    Args:
      path: The file. If it is missing, the recorded spaces are returned.
      recorded: The spaces in a checkpoint, as `spaces_to_json` returns them; None without any.

    Raises:
      FileNotFoundError: There is no such file, and nothing is recorded.
      UsageError: It is no regular file, too large, damaged, or differs from the checkpoint.
    """
    try:
        text: bytes | str = read_regular(path, _MAX_FILE_BYTES)
    except FileNotFoundError:
        if not recorded:
            raise
        text = json.dumps(recorded)
    try:
        data = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse)
        for name in ("observation_space", "action_space"):
            if recorded and json.dumps(recorded[name]) != json.dumps(data[name]):
                raise ValueError(_difference(name, data[name], recorded[name]))
        if data.pop("sha256", None) not in (None, _checksum(data)):
            raise ValueError("its checksum is wrong")
        return space_from_json(data["observation_space"]), space_from_json(data["action_space"])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UsageError(f"{path} is damaged ({reason}); expected the spaces of a run") from None


def spaces_to_json(observation_space: Space, action_space: Space) -> dict[str, PlainData]:
    """Returns both spaces by name, see `space_to_json`."""
    return {
        "observation_space": space_to_json(observation_space),
        "action_space": space_to_json(action_space),
    }


def _difference(name: str, found: PlainData, recorded: PlainData) -> str:
    """Says where two spaces differ: "action_space.high is 3.0, in the checkpoint 2.0"."""
    if isinstance(found, dict) and isinstance(recorded, dict) and found.keys() == recorded.keys():
        for key, value in found.items():
            if json.dumps(value) != json.dumps(recorded[key]):
                return _difference(f"{name}.{key}", value, recorded[key])
    return f"{name} is {abbreviate(found)}, in the checkpoint {abbreviate(recorded)}"


def _checksum(data: PlainData) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _distinct(pairs: list[tuple[str, PlainData]]) -> dict[str, PlainData]:
    """Returns an object of JSON; of equal keys Python would take the last one."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


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
