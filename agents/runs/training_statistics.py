"""Statistics of a training between two log points: episodes and wall-clock breakdown."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Sequence, Set

import numpy as np


class EpisodeStatistics:
    """Means of returns, lengths and numbers in infos over the iterations since the last log point.

    They are kept in NumPy: an iteration's results are fetched once.
    """

    def __init__(self, info_keys: Sequence[str], info_names: Set[str]):
        """Starts empty.

        Args:
          info_keys: Names of numbers in infos to average.
          info_names: Names seen in infos so far, which the environments keep up to date.
        """
        self._info_keys, self._info_names = info_keys, info_names
        self._missing: set[str] = set()  # Info keys that a warning was issued for.
        self._clear()

    def add(
        self,
        done: np.ndarray,
        episode_return: np.ndarray,
        episode_length: np.ndarray,
        extras: dict[str, np.ndarray],
    ) -> None:
        """Adds an iteration.

        Args:
          done: bool [T, B].
          episode_return: float32 [T, B], valid where `done`.
          episode_length: int32 [T, B], valid where `done`.
          extras: float32 [T, B] by info key; NaN where an info lacks the key.
        """
        self._returns.append(episode_return[done])
        self._lengths.append(episode_length[done])
        for key, numbers in extras.items():
            present = numbers[~np.isnan(numbers)]
            self._info_sums[key] += [present.sum(dtype=np.float64), present.size]

    def scalars(self) -> dict[str, float]:
        """Means by tag; clears the statistics. Nothing that did not occur is reported."""
        scalars = {}
        returns, lengths = np.concatenate(self._returns), np.concatenate(self._lengths)
        if len(returns):
            scalars["episode/return"] = float(np.mean(returns, dtype=np.float64))
            scalars["episode/length"] = float(np.mean(lengths))
        for key, (total, count) in self._info_sums.items():
            if count:
                scalars[f"info/{key}"] = float(total / count)
            elif self._info_names and key not in self._missing:
                self._missing.add(key)
                names = ", ".join(sorted(map(str, self._info_names)))
                warnings.warn(
                    f"info_keys: no info had a number '{key}' so far; names in infos: {names}",
                    stacklevel=3,
                )
        self._clear()
        return scalars

    def _clear(self) -> None:
        self._returns: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._info_sums = {key: np.zeros(2) for key in self._info_keys}  # Sum and count.


class TimeShares:
    """Wall-clock breakdown since the last report.

    Time that no part adds, such as a caller's between evaluations, is in no share: shares sum up to
    at most 1.
    """

    def __init__(self) -> None:
        """Starts the clock."""
        self._seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    def add(self, name: str, seconds: float) -> None:
        """Adds seconds to what `name` took."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    @contextlib.contextmanager
    def measuring(self, name: str) -> Iterator[None]:
        """Adds the time that its block takes, without that before a report inside of the block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - max(start, self._start))

    def report(self) -> dict[str, float]:
        """Returns the share of each as `time/<name>`, and starts over."""
        now = time.perf_counter()
        total = max(now - self._start, 1e-9)
        shares = {f"time/{name}": seconds / total for name, seconds in self._seconds.items()}
        self._seconds, self._start = {}, now
        return shares
