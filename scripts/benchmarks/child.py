"""A contestant's side of a benchmark: `python -m benchmarks.child`, which reads and writes lines of JSON.

Each contestant has a process of its own, so that TensorFlow and PyTorch do not fight over threads and memory, and each
can choose its thread counts. It is a generator function: it prepares its work, yields a function that measures it, and
cleans up. That function is given the seconds that it should take, and returns a figure, or a figure and a remark.

    {"function": "module:name", "settings": {...}, "cores": [0, 1]}  -->
                                                       <--  {"ready": true}
    {"seconds": 1.0}                                   -->
                                                       <--  {"value": 12.5, "note": "..."}

A failure is answered by {"error": "..."}; at the end of its input the process cleans up and ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Measure = Callable[[float], float | tuple[float, str]]


def rate(work: Callable[[], Any], amount: float) -> Measure:
    """Measures how often a second something is done, where each call of `work` does it `amount` times."""

    def measure(seconds: float) -> float:
        calls, elapsed = _repeat(work, seconds)
        return calls * amount / elapsed

    return measure


def duration(work: Callable[[], Any], parts: float, scale: float = 1.0) -> Measure:
    """Measures the seconds, times `scale`, that one of the `parts` takes which each call of `work` has."""

    def measure(seconds: float) -> float:
        calls, elapsed = _repeat(work, seconds)
        return scale * elapsed / (calls * parts)

    return measure


def _repeat(work: Callable[[], Any], seconds: float) -> tuple[int, float]:
    """Calls at least once and until the time is over; returns number of calls and seconds."""
    calls, start = 0, time.perf_counter()
    while True:
        work()
        calls, elapsed = calls + 1, time.perf_counter() - start
        if elapsed >= seconds:
            return calls, elapsed


def main() -> None:
    """Serves the process that started this one."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print must not come in between.

    def answer(**message: Any) -> None:
        print(json.dumps(message), file=answers, flush=True)

    try:
        order = json.loads(sys.stdin.readline())
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, order["cores"])
        with _contestant(order["function"])(**order["settings"]) as measure:
            answer(ready=True)
            for line in sys.stdin:
                result = measure(json.loads(line)["seconds"])
                value, note = result if isinstance(result, tuple) else (result, "")
                answer(value=value, note=note)
    except BaseException as error:
        reason = " ".join(str(error).split())
        answer(error=f"{type(error).__name__}: {reason}" if reason else type(error).__name__)
        raise


def _contestant(name: str) -> Callable[..., contextlib.AbstractContextManager[Measure]]:
    module, function = name.split(":")
    generator: Callable[..., Iterator[Measure]] = getattr(importlib.import_module(module), function)
    return contextlib.contextmanager(generator)


if __name__ == "__main__":
    main()
