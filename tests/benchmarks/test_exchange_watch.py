import numpy as np
import pytest

from benchmarks import exchange_watch
from benchmarks.exchange_watch import Exchanged, WatchedExchange


class Doubling:
    """Two learners that have the same arrays; a sum takes two seconds, a gather three."""

    def __init__(self, clock):
        self._clock = clock

    def sum(self, array):
        self._clock[0] += 2.0
        return 2 * array

    def gather(self, data):
        self._clock[0] += 3.0
        return np.stack([data, data])

    def broadcast(self, data):
        return data


@pytest.fixture
def watched(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(exchange_watch.time, "perf_counter", lambda: clock[0])
    return WatchedExchange(Doubling(clock))


def test_calls_bytes_and_seconds_are_counted_by_kind(watched):
    np.testing.assert_array_equal(watched.sum(np.ones(7, np.float32)), np.full(7, 2.0))
    watched.sum(np.ones(1, np.float64))
    assert watched.gather(np.arange(5, dtype=np.uint8)).shape == (2, 5)
    assert watched.broadcast(np.arange(4, dtype=np.uint8)).size == 4
    assert watched.sums == Exchanged(calls=2, num_bytes=7 * 4 + 8, seconds=4.0)
    assert watched.gathers == Exchanged(calls=1, num_bytes=5, seconds=3.0)
    watched.clear()
    assert watched.sums == watched.gathers == Exchanged()
