import contextlib
import threading
import time

import pytest

from agents import stop_signals
from agents.shared_memory.several_channels import wait_until
from tests.shared_memory.test_channel import pair, writes  # noqa: F401 - A fixture.


@contextlib.contextmanager
def pairs(count):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(pair()) for _ in range(count)]


def wait_for(channels, count, while_waiting=lambda: None):
    """Waits until so many of the workers have counted to 1; returns which."""
    parents = [parent for parent, _ in channels]
    counted = []

    def is_enough():
        counted[:] = [index for index, parent in enumerate(parents) if parent.has_count(1)]
        return len(counted) >= count

    wait_until(is_enough, parents, while_waiting)
    return counted


def test_waits_for_the_first_of_several_workers():
    with pairs(4) as channels:
        for index, expected in ((1, [1]), (3, [1, 3]), (0, [0, 1, 3])):
            threading.Timer(0.05, channels[index][1].set_count, [1]).start()
            assert wait_for(channels, len(expected)) == expected
        assert not any(parent.words[index] for parent, _ in channels for index in (2, 3))


@pytest.mark.timing
def test_a_lost_ring_costs_milliseconds():
    with pairs(2) as channels:
        worker = channels[1][1]
        # Without a ring: as if the worker had read the flag just before it was set.
        threading.Timer(0.05, worker.words.__setitem__, [1, 1]).start()
        if not worker._is_ordered:
            pytest.skip("Every turn rings there.")
        start = time.monotonic()
        assert wait_for(channels, 1) == [1]
        assert time.monotonic() - start < 20


def test_a_side_that_is_gone_does_not_end_the_wait_for_others_and_costs_no_time():
    with pairs(2) as channels:
        calls = []
        channels[0][1].close()
        threading.Timer(0.3, channels[1][1].set_count, [1]).start()
        assert wait_for(channels, 1, lambda: calls.append(1)) == [1]
        assert 3 < len(calls) < 40  # It slept between them.


def test_a_stop_ends_the_wait(monkeypatch):
    with pairs(2) as channels:
        threading.Timer(0.1, lambda: monkeypatch.setattr(stop_signals, "requested", 2)).start()
        with pytest.raises(stop_signals.StopRequested):
            wait_for(channels, 1)
        assert not any(parent.words[2] for parent, _ in channels)
