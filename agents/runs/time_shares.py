"""What the time of a training goes to."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class TimeShares:
    """Shares of wall-clock time since the last report, by what it was spent on.

    What nothing is added for, as the time that a caller of `train` takes between evaluations, is in
    no share: they sum up to at most 1.
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
        """Adds the time that its block takes."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def report(self) -> dict[str, float]:
        """Returns the share of each as `time/<name>`, and starts over."""
        now = time.perf_counter()
        total = max(now - self._start, 1e-9)
        shares = {f"time/{name}": seconds / total for name, seconds in self._seconds.items()}
        self._seconds, self._start = {}, now
        return shares
