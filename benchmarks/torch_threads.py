"""The number of PyTorch's threads: for small networks one is often the fastest."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from benchmarks.machine import cores


def choose_threads(work: Callable[[], object]) -> str:
    """Sets the number of threads, one or one per core, with which `work` is faster.

    Returns:
      A note with the chosen number.
    """
    seconds = {}
    for threads in (1, len(cores())):
        torch.set_num_threads(threads)
        work()
        start = time.perf_counter()
        work()
        seconds[threads] = time.perf_counter() - start
    threads = min(seconds, key=seconds.__getitem__)
    torch.set_num_threads(threads)
    return f"PyTorch with {threads} thread{'s' if threads > 1 else ''}"


class WithBestThreads:
    """A measurement that first chooses the number of PyTorch's threads."""

    def __init__(self, work: Callable[[], object], measure: Callable[[float], float]):
        """Stores `work` for the choice and `measure` for the measurements."""
        self._work, self._measure, self._note = work, measure, ""

    def __call__(self, seconds: float) -> tuple[float, str]:
        """Measures; the first call, which is the warm-up, chooses the number of threads before."""
        self._note = self._note or choose_threads(self._work)
        return self._measure(seconds), self._note
