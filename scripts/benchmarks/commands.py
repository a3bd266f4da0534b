"""Whole processes, from their start to their end: training commands, and programs to compare them with."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PEAK_UNIT = 1024 if sys.platform != "darwin" else 1  # Of `ru_maxrss`, in bytes.


@dataclass(frozen=True)
class Ended:
    """A process that has ended well.

    Attributes:
      started: When it was started, in `time.time()`.
      seconds: From its start to its end.
      peak: Its largest resident set, or that of a process that it waited for, in bytes.
      output: What it printed.
    """

    started: float
    seconds: float
    peak: float
    output: str


def run(arguments: Sequence[str]) -> Ended:
    """Runs Python with these arguments. Raises RuntimeError with its `error:` line or else its last one if it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started, start = time.time(), time.monotonic()
        process = subprocess.Popen([sys.executable, *arguments], stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            lines = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
            reason = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "no message")
            raise RuntimeError(f"{' '.join(arguments)[:200]} ended with code {process.returncode}: {reason}")
        return Ended(started, seconds, usage.ru_maxrss * PEAK_UNIT, output.read().decode(errors="replace"))


def train(*settings: str) -> tuple[Ended, list[dict[str, float]]]:
    """Runs the training command; returns the lines of its metrics.jsonl as well."""
    from agents.runs.metrics import read_metrics

    with tempfile.TemporaryDirectory() as logdir:
        ended = run(["-m", "agents.scripts.train", f"--logdir={logdir}", *settings])
        (metrics,) = Path(logdir).glob("*/metrics.jsonl")
        return ended, read_metrics(metrics)
