"""Checks of environments' results: structures, shapes, types, finite numbers and bounds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium import spaces

from agents.environments.batch_bounds import BatchBounds
from agents.spaces import flatten, leaf_paths, leaf_spaces

if TYPE_CHECKING:
    from agents.spaces import Leaf
    from agents.types import Info, Leaves, NestedArray, Space

# What an environment returned, of any type.
Returned: TypeAlias = Any

# The usual types of rewards and flags; `check_types` accepts some more.
REAL_TYPES = frozenset({float, int, np.float64, np.float32})
FLAG_TYPES = frozenset({bool, np.bool_})

# Kinds of NumPy types that observations may have, by the kind of their space's type.
_KINDS = {"f": "f", "i": "iu", "u": "iu", "b": "b"}

# Environments that compute in float64 miss their own float32 bounds by a rounding or two.
_TOLERANCE = 1e-5


class DataError(ValueError):
    """Data that an environment must not return; the message begins with "returned"."""


def warn_of_bounds(returned: str) -> None:
    """Warns of a number out of bounds, which `returned` tells in the words of a `DataError`."""
    warnings.warn(
        f"An environment {returned}. Training continues, and no longer checks these bounds; "
        "widen the observation space.",
        stacklevel=2,
    )


class DataCheck:
    """Checks observations: types and shapes one by one, bounds for all environments at once.

    Finite numbers of floating point may be out of bounds: many environments miss their own, such as
    BipedalWalker-v3, whose hull turns further than pi. The first one is reported.

    Attributes:
      shape: Shape of observations that are a single Box, the usual case; None for others.
      dtype: Type of observations that are a single Box.
    """

    def __init__(
        self,
        observation_space: Space,
        num_envs: int,
        report: Callable[[str], None] = warn_of_bounds,
    ):
        """Initializes the checks.

        Args:
          observation_space: Space of each environment's observations.
          num_envs: Number of environments, N.
          report: Is called with the first finite number out of the bounds of a leaf, in the words of
            a `DataError`; from then on, that leaf need only be finite.
        """
        self._space, self._report = observation_space, report
        self._leaf_spaces = leaf_spaces(observation_space)
        single = isinstance(observation_space, spaces.Box)
        self.shape = observation_space.shape if single else None
        self.dtype = observation_space.dtype if single else None
        self._bounds = [BatchBounds(leaf, num_envs, _TOLERANCE) for leaf in self._leaf_spaces]
        paths = leaf_paths(observation_space)
        self._paths = ["".join(f"[{key!r}]" for key in path) for path in paths]

    def leaves(self, observ: NestedArray) -> Leaves:
        """Returns the leaves [...] of an observation as arrays of any fitting type.

        Raises:
          DataError: Structure, shapes or types are not those of the observation space.
        """
        is_array = observ.__class__ is np.ndarray
        if is_array and observ.dtype is self.dtype and observ.shape == self.shape:
            return [observ]  # The usual case, in less time.
        return self._checked_arrays(observ)

    def arrays(self, observ: NestedArray) -> tuple[Leaves, bool]:
        """Converts one observation, or a batch of them, to arrays of the space's types.

        Checks everything that `leaves` and `check_bounds` do, without changing buffers: several
        threads may call this at once. Integers may stand for floating point.

        Args:
          observ: Leaves [...] of one observation, or [N, ...] of a batch, for any N.

        Returns:
          The arrays, shaped as given, and whether they are of one observation.

        Raises:
          DataError: As `leaves` and `check_bounds`, or batch sizes differ.
        """
        arrays = self._checked_arrays(observ, or_batch=True)
        pairs = list(zip(arrays, self._leaf_spaces, strict=True))
        with np.errstate(over="ignore"):  # Infinities are out of bounds.
            arrays = [array.astype(leaf.dtype, copy=False) for array, leaf in pairs]
        sizes = [array.shape[: array.ndim - len(leaf.shape)] for array, leaf in pairs]
        if len(set(sizes)) > 1:
            shapes = ", ".join(
                f"{list(array.shape)}{_at(path)}"
                for array, path in zip(arrays, self._paths, strict=True)
            )
            raise DataError(f"returned the shapes {shapes}, expected the same batch size")
        self.check_bounds([array[None] for array in arrays], 0)
        return arrays, not sizes[0]

    def _checked_arrays(self, observ: NestedArray, or_batch: bool = False) -> Leaves:
        """Returns the leaves [...] of an observation, or [N, ...] of a batch, as arrays.

        Args:
          observ: What an environment, or the caller of a policy, has returned.
          or_batch: Whether to take batches, and integers for floating point.

        Raises:
          DataError: As `leaves`.
        """
        arrays: Leaves = []
        values = _flatten(self._space, observ)
        for value, leaf, path in zip(values, self._leaf_spaces, self._paths, strict=True):
            try:
                array = np.asarray(value)
            except Exception as error:  # Rows of different lengths, or a tensor of a graph.
                raise DataError(
                    f"returned the observation {_describe(value)}{_at(path)}, expected {leaf}"
                ) from error
            if array.shape != leaf.shape and not (or_batch and array.shape[1:] == leaf.shape):
                raise DataError(
                    f"returned an observation of shape {array.shape}{_at(path)}, expected {leaf}"
                    + (" or a batch of them" if or_batch else "")
                )
            _check_type(array, leaf, path, also="iu" if or_batch and leaf.dtype.kind == "f" else "")
            arrays.append(array)
        return arrays

    def are_in_bounds(self, leaves: Leaves) -> bool:
        """Returns whether all observations, leaves [N, ...], are finite and in bounds."""
        if len(leaves) == 1:  # The usual case, in which everything else takes as long.
            return self._bounds[0].contain(leaves[0])
        return all(map(BatchBounds.contain, self._bounds, leaves))

    def check_bounds(self, leaves: Leaves, env: int) -> None:
        """Checks the observation of one environment; leaves are [N, ...].

        Raises:
          DataError: A number is NaN, infinite, or an integer out of bounds.
        """
        for known, batch, leaf, path in zip(
            self._bounds, leaves, self._leaf_spaces, self._paths, strict=True
        ):
            if known.all_integers:
                continue
            observ = np.asarray(batch[env])  # [...]
            outside = known.outside(observ, env)  # [...]
            if not outside.any():
                continue
            worse = outside & ~np.isfinite(observ) if leaf.dtype.kind == "f" else outside
            place = tuple(np.argwhere(worse if np.any(worse) else outside)[0].tolist())
            where = f" at {path}{list(place) or ''}" if path or place else ""
            returned = f"returned {observ[place]}{where} in an observation of {leaf}"
            if np.any(worse):
                raise DataError(returned)
            self._report(returned)
            known.widen()

    def fill(self, leaves: Leaves, env: int) -> None:
        """Writes any valid observation into the row `env` of leaves [N, ...]."""
        for known, batch in zip(self._bounds, leaves, strict=True):
            batch[env] = np.clip(0, known.low[env], known.high[env])


def unpack_reset(returned: Returned) -> tuple[NestedArray, Info]:
    """Returns the observation and the info that `reset` returned.

    Raises:
      DataError: It did not return two values, or the info is not a dictionary.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise DataError(f"returned {_describe(returned)}, expected (observ, info)")
    observ, info = returned
    if not isinstance(info, Mapping):
        raise DataError(f"returned the info {_describe(info)}, expected a dictionary")
    return observ, dict(info)


def check_types(
    reward: Returned, terminated: Returned, truncated: Returned, info: Returned
) -> None:
    """Checks what `step` returned besides the observation.

    Raises:
      DataError: The reward is not a finite number, a flag is not a boolean, or the info is not a
        dictionary.
    """
    if np.ndim(reward) != 0 or np.asarray(reward).dtype.kind not in "fiub":
        raise DataError(f"returned the reward {_describe(reward)}, expected a number")
    check_reward(reward)
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if np.ndim(flag) != 0 or np.asarray(flag).dtype.kind not in "biu" or flag not in (0, 1):
            raise DataError(f"returned {_describe(flag)} for {name}, expected True or False")
    if not isinstance(info, Mapping):
        raise DataError(f"returned the info {_describe(info)}, expected a dictionary")


def check_reward(reward: float) -> None:
    """Raises DataError unless the reward is finite."""
    if not math.isfinite(reward):
        raise DataError(f"returned the reward {reward}, expected a finite number")


def _flatten(space: Space, observ: Returned) -> list[NestedArray]:
    """Returns the leaves of an observation as they are; raises DataError for another structure."""
    try:
        return flatten(space, observ)
    except Exception:
        _check_structure(space, observ)
        raise DataError(
            f"returned the observation {_describe(observ)}, expected an element of {space}"
        ) from None


def _check_structure(space: Space, value: Returned, path: str = "") -> None:
    """Raises DataError for the first part of an observation without its space's structure."""
    returned = f"returned the observation {_describe(value)}{_at(path)}"
    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces):
            try:
                part = value[key]
            except Exception:
                raise DataError(f"{returned}, expected a dictionary with {key!r}") from None
            _check_structure(space[key], part, f"{path}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        try:
            pairs = list(zip(space.spaces, value, strict=True))
        except Exception:
            raise DataError(f"{returned}, expected {len(space.spaces)} values") from None
        for index, (child, part) in enumerate(pairs):
            _check_structure(child, part, f"{path}[{index}]")


def _check_type(array: np.ndarray, leaf: Leaf, path: str, also: str = "") -> None:
    """Raises DataError unless an array has the kind of its space's type, or `also` these kinds."""
    kinds = _KINDS[leaf.dtype.kind] + ("b" if isinstance(leaf, spaces.MultiBinary) else "") + also
    if array.dtype.kind not in kinds:
        kind = "" if isinstance(leaf, spaces.Box) else f" of type {leaf.dtype}"  # A Box names it.
        raise DataError(
            f"returned an observation of type {array.dtype}{_at(path)}, expected {leaf}{kind}"
        )
    # Before it is written, where it would wrap around.
    if leaf.dtype.kind in "iu" and array.dtype != leaf.dtype and array.size:
        limits, smallest, largest = np.iinfo(leaf.dtype), int(array.min()), int(array.max())
        if smallest < limits.min or largest > limits.max:
            number = smallest if smallest < limits.min else largest
            raise DataError(f"returned an observation with {number}{_at(path)}, expected {leaf}")


def _at(path: str) -> str:
    return f" at {path}" if path else ""


def _describe(value: Returned) -> str:
    """Returns a value in one line of at most 80 characters; of a tuple, its length; of a dictionary, its keys."""
    if isinstance(value, tuple):
        return f"{len(value)} values"
    if isinstance(value, Mapping) and value:
        text = f"with the keys {', '.join(map(repr, value))}"
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
