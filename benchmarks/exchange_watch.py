"""Measures what learners exchange: number, bytes and seconds, by the kind of the call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from agents.distributed.exchange import Exchange


class Exchanged(NamedTuple):
    """The calls of a kind so far.

    Attributes:
      calls: How many.
      num_bytes: Bytes of this learner's arrays in them.
      seconds: How long this learner was in them, waiting for the others included.
    """

    calls: int = 0
    num_bytes: int = 0
    seconds: float = 0.0


class WatchedExchange(Exchange):
    """Passes calls to another exchange, and measures them.

    Attributes:
      num_calls: See `Exchange`.
      sums: The calls of `sum`: all sums and means of the graph.
      gathers: The calls of `gather`.
    """

    def __init__(self, exchange: Exchange):
        """Wraps an exchange; `broadcast` is not measured, as no iteration needs it."""
        self._exchange = exchange
        self.clear()

    def clear(self) -> None:
        """Forgets all calls so far."""
        self.sums, self.gathers = Exchanged(), Exchanged()

    def sum(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        num_bytes = sum(array.nbytes for array in arrays)
        result, self.sums = _measure(self.sums, num_bytes, lambda: self._exchange.sum(arrays))
        return result

    def gather(self, data: np.ndarray) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        result, self.gathers = _measure(
            self.gathers, data.nbytes, lambda: self._exchange.gather(data)
        )
        return result

    def broadcast(self, data: np.ndarray) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        return self._exchange.broadcast(data)

    def close(self) -> None:
        """See `Exchange`."""
        self._exchange.close()


def _measure(
    before: Exchanged, num_bytes: int, call: Callable[[], np.ndarray]
) -> tuple[np.ndarray, Exchanged]:
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    return result, Exchanged(
        before.calls + 1, before.num_bytes + num_bytes, before.seconds + seconds
    )
