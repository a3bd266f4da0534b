"""The bounds of a space for a whole batch of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agents.spaces import bounds

if TYPE_CHECKING:
    from agents.spaces import Leaf


class BatchBounds:
    """Tells whether batches of elements are within the bounds of a leaf space.

    All elements are compared at once: `space.contains`, one by one, takes as long as stepping light
    environments. NaN and infinities are never within bounds.

    Attributes:
      low: The smallest finite element, inclusive, [N, ...] of the space's type.
      high: The largest finite element, inclusive, [N, ...] of the space's type.
      all_integers: Whether all integers of the space's type are within the bounds.
    """

    def __init__(self, leaf: Leaf, num_elements: int, tolerance: float = 0.0):
        """Initializes the bounds.

        Args:
          leaf: A Box, Discrete, MultiDiscrete or MultiBinary.
          num_elements: Number of elements of a batch, N.
          tolerance: Widens bounds of floating point, relative to their magnitude if that is over 1.
        """
        low, high = bounds(leaf)
        self._all_finite = self.all_integers = False
        if leaf.dtype.kind == "f":
            limits = np.finfo(leaf.dtype)
            self._all_finite = bool(np.all(low == limits.min) and np.all(high == limits.max))
            with np.errstate(over="ignore"):
                low = np.maximum(low - tolerance * np.maximum(1, np.abs(low)), limits.min)
                high = np.minimum(high + tolerance * np.maximum(1, np.abs(high)), limits.max)
        elif leaf.dtype.kind in "iu":
            integers = np.iinfo(leaf.dtype)
            self.all_integers = bool(np.all(low == integers.min) and np.all(high == integers.max))
        # In the batch's shape, type and order: comparing with them takes a fifth of the time then.
        shape = (num_elements, *leaf.shape)
        self.low = np.broadcast_to(low, shape).astype(leaf.dtype, "C")  # [N, ...]
        self.high = np.broadcast_to(high, shape).astype(leaf.dtype, "C")  # [N, ...]
        self._inside = np.empty((2, *shape), bool)  # [2, N, ...]
        self._above_low, self._below_high = self._inside
        self._true, self._half_true = (np.ones((n, *shape), bool).tobytes() for n in (2, 1))

    def widen(self) -> None:
        """Leaves out the bounds of floating point: all finite numbers are within bounds then."""
        limits = np.finfo(self.low.dtype)
        self.low[...], self.high[...] = limits.min, limits.max
        self._all_finite = True

    def contain(self, batch: np.ndarray) -> bool:
        """Returns whether all elements of a batch [N, ...] are within the bounds."""
        # Positional outputs and comparing bytes take half of the time of `all`.
        if self.all_integers and batch.dtype == self.low.dtype:
            return True
        if self._all_finite:
            np.isfinite(batch, self._above_low)
            return bool(self._above_low.tobytes() == self._half_true)
        np.greater_equal(batch, self.low, self._above_low)
        np.less_equal(batch, self.high, self._below_high)
        return bool(self._inside.tobytes() == self._true)

    def first_outside(self, batch: np.ndarray) -> int | None:
        """Returns the index of the first element of a batch [N, ...] out of bounds, or None."""
        if self.contain(batch):
            return None
        inside = (batch >= self.low) & (batch <= self.high)  # [N, ...]
        return int(np.argmin(inside.reshape(len(batch), -1).all(axis=1)))

    def outside(self, element: np.ndarray, index: int) -> np.ndarray:
        """Returns which numbers of one element [...] are out of bounds, bool [...]."""
        outside: np.ndarray = ~((element >= self.low[index]) & (element <= self.high[index]))
        return outside
