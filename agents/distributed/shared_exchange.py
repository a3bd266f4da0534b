"""Sums of arrays over the learners of one machine, in memory that they share.

Every learner has a counter and two slots. It writes an array to a slot, increments its counter,
waits for the counters of the others, and reads their slots. The slots take turns: a learner can't be
two turns ahead of another, so that no slot is overwritten while it is read, and one wait is enough.
All learners add in the order of ranks, so that sums are equal bit for bit.

The launcher notes in the memory that a learner has ended, so that the others do not wait for it.

Processors other than x86-64's may show a counter before the slot: `start_on_this_machine` refuses them.
"""

from __future__ import annotations

import time

import numpy as np

from agents.errors import LearnerLostError
from agents.workers.channel import yield_processor
from agents.workers.shared_block import map_file

# Bytes that a learner writes in a turn; longer arrays take several.
SLOT_BYTES = 1 << 22

# A cache line, so that learners do not slow down each other's counters.
_LINE_BYTES = 64

_SPIN_SECONDS = 0.002
_SLEEP_SECONDS = 0.0001


def shared_bytes(num_learners: int) -> int:
    """Returns the bytes of the memory that learners share; the system allocates used pages only."""
    return _LINE_BYTES + num_learners * (_LINE_BYTES + 2 * SLOT_BYTES)


class EndedLearner:
    """Rank of the first learner that has ended, for the waiting ones."""

    def __init__(self, memory: int):
        """Maps the memory, see `SharedExchange`."""
        self._number = map_file(memory, _LINE_BYTES).view(np.int64)

    @property
    def rank(self) -> int | None:
        """The first learner that has ended; None if all are there."""
        number = int(self._number[0])
        return number - 1 if number else None

    def note(self, rank: int) -> None:
        """Notes that a learner has ended."""
        if self.rank is None:
            self._number[0] = rank + 1


class SharedExchange:
    """Combines arrays of all learners.

    All learners call the same methods in the same order, with arrays of the same sizes. Each call
    returns when the arrays of all learners have arrived; results are equal, bit for bit.

    Raises of all methods:
      LearnerLostError: Another learner has ended.
    """

    def __init__(self, memory: int, rank: int, num_learners: int):
        """Maps the memory.

        Args:
          memory: Descriptor of `shared_bytes` zero bytes; it may be closed afterwards.
          rank: The number of this learner.
          num_learners: Number of learners.
        """
        mapped = map_file(memory, shared_bytes(num_learners))
        counters, slots = np.split(mapped[_LINE_BYTES:], [num_learners * _LINE_BYTES])
        self._counters: np.ndarray = counters.view(np.int64)[:: _LINE_BYTES // 8]  # [learners]
        self._slots: np.ndarray = slots.reshape(2, num_learners, SLOT_BYTES)
        self._ended = EndedLearner(memory)
        self._rank, self._turn = rank, 0

    def sum(self, array: np.ndarray) -> np.ndarray:
        """Returns the sum over learners of an array [size], in an array of its own."""
        total = np.empty_like(array)
        step = SLOT_BYTES // array.itemsize
        for start in range(0, array.size, step):
            part = total[start : start + step]
            data = array[start : start + step].view(np.uint8)
            first, *others = self._swap(data).view(array.dtype)
            part[:] = first
            for other in others:  # Half the time of `np.sum` along this axis.
                part += other
        return total

    def gather(self, data: np.ndarray) -> np.ndarray:
        """Returns the bytes of all learners, uint8 [learners, size]; `data` is uint8 [size]."""
        gathered = np.empty([len(self._counters), data.size], np.uint8)
        for start in range(0, data.size, SLOT_BYTES):
            part = slice(start, start + SLOT_BYTES)
            gathered[:, part] = self._swap(data[part])
        return gathered

    def _swap(self, data: np.ndarray) -> np.ndarray:
        """Writes bytes, uint8 [size]; returns those of all [learners, size] until the next turn."""
        slots = self._slots[self._turn % 2, :, : data.size]
        slots[self._rank] = data
        self._turn += 1
        self._counters[self._rank] = self._turn
        self._wait()
        return slots

    def _wait(self) -> None:
        """Waits until all learners have written for this turn."""
        spin_until = time.monotonic() + _SPIN_SECONDS
        while self._counters.min() < self._turn:
            if time.monotonic() < spin_until:
                yield_processor()
            elif self._ended.rank is not None:
                if self._counters.min() < self._turn:  # It may have written before it ended.
                    raise LearnerLostError(self._ended.rank, "this machine", "has ended")
            else:
                time.sleep(_SLEEP_SECONDS)
