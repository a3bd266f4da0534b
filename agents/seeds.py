"""Random seeds, all derived from the seed of a run."""

from __future__ import annotations

import zlib

import numpy as np


class Seeds:
    """Independent seeds by name for everything that is random in a run.

    A seed is a function of the run's seed, its name and a counter: there is no state, and equal
    arguments give equal seeds.
    """

    def __init__(self, seed: int):
        """Stores the run's seed, which must not be negative."""
        self._seed = seed

    def one(self, name: str, counter: int = 0) -> int:
        """Returns the seed for `name` and `counter`, in [0, 2^31)."""
        return int(self.many(name, 1, counter)[0])

    def many(self, name: str, num_seeds: int, counter: int = 0) -> np.ndarray:
        """Returns seeds for `name` and `counter`.

        Args:
          name: What the seeds are for.
          num_seeds: How many, N.
          counter: Distinguishes seeds of the same name, such as those of different iterations.

        Returns:
          int64 [N], each in [0, 2^31). More seeds start with the same ones as fewer.
        """
        sequence = np.random.SeedSequence([self._seed, zlib.crc32(name.encode()), counter])
        return (sequence.generate_state(num_seeds) >> 1).astype(np.int64)  # [N]
