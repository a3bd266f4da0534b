"""Waiting for some of several workers, like `Channel.wait_count` for one."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from agents import stop_signals
from agents.shared_memory.channel import SLEEP_SECONDS, SPIN_SECONDS, Channel, yield_processor


def wait_until(
    condition: Callable[[], bool],
    channels: Sequence[Channel],
    while_waiting: Callable[[], object],
) -> None:
    """Waits until a condition on the counters of other sides holds.

    Args:
      condition: Checked after every change of a counter, and every few milliseconds.
      channels: This side of the channels, one for each counter.
      while_waiting: Called every few milliseconds while this side sleeps; may raise.

    Raises:
      StopRequested: A stop of this process was requested.
    """
    spin_until = time.perf_counter() + SPIN_SECONDS
    while not condition():
        if time.perf_counter() > spin_until:
            _sleep_until(condition, channels, while_waiting)
            return
        yield_processor()


def _sleep_until(
    condition: Callable[[], bool],
    channels: Sequence[Channel],
    while_waiting: Callable[[], object],
) -> None:
    doorbells = select.poll()
    by_descriptor = {channel.fileno(): channel for channel in channels}
    for descriptor in by_descriptor:
        doorbells.register(descriptor, select.POLLIN)
    try:
        for channel in channels:
            channel.set_asleep(True)
        while not condition():
            stop_signals.check()
            while_waiting()
            for descriptor, _ in doorbells.poll(SLEEP_SECONDS * 1000):
                if not by_descriptor[descriptor].drain_doorbell():
                    doorbells.unregister(descriptor)  # The other side is gone.
    finally:
        for channel in channels:
            channel.set_asleep(False)
