"""Measures what learners exchange: number, bytes and seconds, by the kind of the call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from agents.distributed.shared_exchange import SharedExchange


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


class WatchedExchange:
    """Passes calls to an exchange, and measures them.

    Attributes:
      sums: The calls of `sum`: all sums and means of the graph.
      gathers: The calls of `gather`.
    """

    def __init__(self, exchange: SharedExchange):
        """Wraps an exchange."""
        self._exchange = exchange
        self.clear()

    def clear(self) -> None:
        """Forgets all calls so far."""
        self.sums, self.gathers = Exchanged(), Exchanged()

    def sum(self, array: np.ndarray) -> np.ndarray:
        """See `SharedExchange`."""
        result, self.sums = _measure(self.sums, array.nbytes, lambda: self._exchange.sum(array))
        return result

    def gather(self, data: np.ndarray) -> np.ndarray:
        """See `SharedExchange`."""
        result, self.gathers = _measure(
            self.gathers, data.nbytes, lambda: self._exchange.gather(data)
        )
        return result


def _measure(
    before: Exchanged, num_bytes: int, call: Callable[[], np.ndarray]
) -> tuple[np.ndarray, Exchanged]:
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    return result, Exchanged(
        before.calls + 1, before.num_bytes + num_bytes, before.seconds + seconds
    )
