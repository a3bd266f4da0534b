"""The process of a contestant: `python -m benchmarks.contestant`, which exchanges lines of JSON.

Each contestant has a process of its own, so that TensorFlow and PyTorch do not compete for threads
and memory, and each can choose its thread counts. A contestant is a generator function: it prepares
its workload, yields a function that measures it, and cleans up. That function takes the seconds to
measure for, and returns a figure, a figure and a note, or a `Measurement`.

    {"function": "module:name", "settings": {...}, "cores": [0, 1]}  -->
                                                       <--  {"ready": true}
    {"seconds": 1.0}                                   -->
                                                       <--  {"value": 12.5, "note": "...",
                                                             "parts": {"ms update": 80.0}}

A failure is answered by {"error": "..."}; at the end of its input the process cleans up and exits.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple


class Measurement(NamedTuple):
    """What a contestant measures in a round.

    Attributes:
      value: The figure.
      note: A remark on it, which may be empty.
      parts: Further numbers by unit and name, such as `ms update`.
    """

    value: float
    note: str = ""
    parts: Mapping[str, float] = {}


Measure = Callable[[float], float | tuple[float, str] | Measurement]


def rate(work: Callable[[], object], amount: float) -> Callable[[float], float]:
    """Returns a measurement of the units of work per second; one call of `work` does `amount`."""

    def measure(seconds: float) -> float:
        calls, elapsed = _repeat(work, seconds)
        return calls * amount / elapsed

    return measure


def duration(
    work: Callable[[], object], parts: float, scale: float = 1.0
) -> Callable[[float], float]:
    """Returns a measurement of `scale` times the seconds per part; one call of `work` has `parts`."""

    def measure(seconds: float) -> float:
        calls, elapsed = _repeat(work, seconds)
        return scale * elapsed / (calls * parts)

    return measure


def _repeat(work: Callable[[], object], seconds: float) -> tuple[int, float]:
    """Calls `work` at least once and until the time is over; returns calls and elapsed seconds."""
    calls, start = 0, time.perf_counter()
    while True:
        work()
        calls, elapsed = calls + 1, time.perf_counter() - start
        if elapsed >= seconds:
            return calls, elapsed


def main() -> None:
    """Serves the requests of the parent process."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Libraries may print to stdout, which would corrupt the protocol.

    def answer(**message: object) -> None:
        print(json.dumps(message), file=answers, flush=True)

    try:
        request = json.loads(sys.stdin.readline())
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, request["cores"])
        with _contestant(request["function"])(**request["settings"]) as measure:
            answer(ready=True)
            for line in sys.stdin:
                result = measure(json.loads(line)["seconds"])
                measurement = Measurement(*(result if isinstance(result, tuple) else (result,)))
                answer(**measurement._asdict())
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
