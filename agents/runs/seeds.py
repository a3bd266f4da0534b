"""Random seeds: all derived from one."""

from __future__ import annotations

import zlib

import numpy as np


class Seeds:
    """Independent seeds for everything that is random in a run, by name.

    They are functions of the run's seed, the name and a counter, and have no state: whoever asks again gets the same.
    """

    def __init__(self, seed: int):
        """Derives from `seed`, a number that is not negative."""
        self._seed = seed

    def one(self, name: str, counter: int = 0) -> int:
        """A seed for `name`, below 2**31; another for every `counter`."""
        return int(self.many(name, 1, counter)[0])

    def many(self, name: str, number: int, counter: int = 0) -> np.ndarray:
        """`number` seeds for `name`, int64 [number], each below 2**31; a longer list begins like a shorter one."""
        sequence = np.random.SeedSequence([self._seed, zlib.crc32(name.encode()), counter])
        return (sequence.generate_state(number) >> 1).astype(np.int64)
