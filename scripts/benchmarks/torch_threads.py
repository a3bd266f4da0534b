"""PyTorch with as many threads as suit it best: for small networks that is often one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.machine import cores


def choose_threads(work: Callable[[], Any]) -> str:
    """Sets PyTorch's threads to one or to one a core, with whichever `work` is faster; returns a remark."""
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
    """A measurement that first finds out how many threads PyTorch is best given."""

    def __init__(self, work: Callable[[], Any], measure: Callable[[float], float]):
        """Tries `work`, then does `measure`."""
        self._work, self._measure, self._note = work, measure, ""

    def __call__(self, seconds: float) -> tuple[float, str]:
        """Measures; the first time, which is the round that does not count, it chooses before that."""
        self._note = self._note or choose_threads(self._work)
        return self._measure(seconds), self._note
