"""The exchange of learners on one machine, in memory that they share.

Every learner has a counter and two slots. It writes an array to a slot, increments its counter,
waits for the counters of the others, and reads their slots. The slots take turns: a learner can't be
two turns ahead of another, so that nobody overwrites what others still read, and one wait is enough.
Sums are added in the order of ranks by everyone, so that they are equal bit by bit.

Processors other than x86-64's may show a counter before the slot: see `is_usable`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np

from agents.distributed.exchange import Exchange, Watch, join_flat
from agents.shared_memory.channel import ORDERED_WRITES
from agents.shared_memory.shared_block import map_file

# Bytes that a learner writes in a turn; longer arrays take several.
SLOT_BYTES = 1 << 22

# A cache line, so that learners do not slow down each other's counters.
_LINE_BYTES = 64

_SPIN_SECONDS = 0.002
_SLEEP_SECONDS = 0.0001
_yield_processor = getattr(os, "sched_yield", lambda: time.sleep(0))


def is_usable() -> bool:
    """Whether processes see the writes of others in their order on this processor."""
    return ORDERED_WRITES


def shared_bytes(num_learners: int) -> int:
    """Size of the memory that learners share; the system allocates what they use of it."""
    return num_learners * (_LINE_BYTES + 2 * SLOT_BYTES)


class SharedExchange(Exchange):
    """See the module."""

    def __init__(self, memory: int, rank: int, num_learners: int, watch: Watch):
        """Maps the memory.

        Args:
          memory: Descriptor of `shared_bytes` zero bytes; it may be closed afterwards.
          rank: Which learner this is.
          num_learners: How many there are.
          watch: Asked regularly while this waits.
        """
        mapped = map_file(memory, shared_bytes(num_learners))
        counters, slots = np.split(mapped, [num_learners * _LINE_BYTES])
        self._counters: np.ndarray = counters.view(np.int64)[:: _LINE_BYTES // 8]  # [learners]
        self._slots: np.ndarray = slots.reshape(2, num_learners, SLOT_BYTES)
        self._rank, self._watch, self._turn = rank, watch, 0

    def sum(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        flat = join_flat(arrays)
        step = SLOT_BYTES // flat.itemsize
        for start in range(0, flat.size, step):
            part = flat[start : start + step]
            first, *others = self._swap(part.view(np.uint8)).view(flat.dtype)
            part[:] = first
            for other in others:  # Half the time of `np.sum` along this axis.
                part += other
        return flat

    def gather(self, data: np.ndarray) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        gathered = np.empty([len(self._counters), data.size], np.uint8)
        for start in range(0, data.size, SLOT_BYTES):
            part = slice(start, start + SLOT_BYTES)
            gathered[:, part] = self._swap(data[part])
        return gathered

    def broadcast(self, data: np.ndarray) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        received = np.empty_like(data)
        for start in range(0, data.size, SLOT_BYTES):
            part = slice(start, start + SLOT_BYTES)
            received[part] = self._swap(data[part])[0]
        return received

    def close(self) -> None:
        """See `Exchange`; frees the memory."""
        self._counters = self._slots = np.empty(0, np.int64)

    def _swap(self, data: np.ndarray) -> np.ndarray:
        """Gives bytes, uint8 [size], and returns everyone's [learners, size] until the next turn."""
        slots = self._slots[self._turn % 2, :, : data.size]
        slots[self._rank] = data
        self._turn += 1
        self._counters[self._rank] = self._turn
        self._wait()
        return slots

    def _wait(self) -> None:
        """Waits until everyone has written for this turn."""
        spin_until = time.monotonic() + _SPIN_SECONDS
        while self._counters.min() < self._turn:
            if time.monotonic() < spin_until:
                _yield_processor()
            else:
                self._watch.check()
                time.sleep(_SLEEP_SECONDS)
