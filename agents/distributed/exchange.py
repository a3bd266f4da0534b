"""Sums of arrays over learners: what every way of communication offers."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Watch(Protocol):
    """Who knows whether the other learners are still there."""

    def check(self) -> None:
        """Raises if another learner is lost, or the chief has stopped; called while waiting."""

    def lost(self, rank: int, error: OSError) -> BaseException:
        """Returns what to raise when the connection with a learner has failed."""


class Exchange(abc.ABC):
    """Combines arrays of all learners.

    All learners call the same methods in the same order, with arrays of the same sizes. Each call
    returns when the arrays of all learners have arrived; results are equal, bit by bit.

    Raises of all methods:
      LearnerLostError: Another learner has failed or does not answer.

    Attributes:
      num_calls: Number of calls that this learner has begun.
    """

    num_calls = 0

    @abc.abstractmethod
    def sum(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Sums arrays over learners.

        Args:
          arrays: Arrays of one floating point type.

        Returns:
          All elements one array after another, in an array [size] of its own.
        """

    @abc.abstractmethod
    def gather(self, data: np.ndarray) -> np.ndarray:
        """Returns the bytes of all learners, uint8 [learners, size]; `data` is uint8 [size]."""

    @abc.abstractmethod
    def broadcast(self, data: np.ndarray) -> np.ndarray:
        """Returns the chief's bytes, uint8 [size]; others give as many, whatever they are."""

    def close(self) -> None:  # noqa: B027 - Not all have something to close.
        """Ends the communication; calls that wait raise."""


def join_flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Copies arrays of one type to a new one, one after another."""
    return np.concatenate([array.reshape(-1) for array in arrays])
