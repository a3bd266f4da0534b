"""How large numbers are, and how much they change."""

from __future__ import annotations

import numpy as np


class Scale:
    """The scale of numbers that are added one observation [O] after another.

    Attributes:
      count: How many were added.
      largest: float64 [O], the largest magnitudes.
    """

    def __init__(self, size: int):
        """Starts without observations of O = `size` numbers."""
        self.count, self.largest = 0, np.zeros(size)
        # Differences from the first observation keep the digits that squares of large numbers lose.
        self._first, self._sum, self._squares = np.zeros((3, size))

    def add(self, numbers: np.ndarray) -> None:
        """Adds an observation, float64 [O]."""
        if not self.count:
            self._first = numbers
        self.count += 1
        self.largest = np.maximum(self.largest, np.abs(numbers))
        with np.errstate(over="ignore"):  # Such numbers are reported as too large.
            difference = numbers - self._first
            self._sum = self._sum + difference
            self._squares = self._squares + difference**2

    def deviation(self) -> np.ndarray:
        """Returns the standard deviations, float64 [O]."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self._sum / self.count
            return np.sqrt(np.maximum(self._squares / self.count - mean**2, 0.0))
