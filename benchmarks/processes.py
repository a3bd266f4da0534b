"""Whole processes, from start to exit: training commands, and peers' programs to compare with."""

from __future__ import annotations

import json
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
class FinishedProcess:
    """A process that exited with code 0.

    Attributes:
      started: Time of its start, as `time.time()`.
      seconds: Duration from its start to its exit.
      peak: Largest resident set of it, or of a child process that it waited for, in bytes.
      output: Its stdout.
    """

    started: float
    seconds: float
    peak: float
    output: str


def run(arguments: Sequence[str], folder: Path | None = None) -> FinishedProcess:
    """Runs Python with these arguments.

    Args:
      arguments: Those after `python`.
      folder: Its working directory, where modules are looked for first; by default ours.

    Raises:
      RuntimeError: The exit code is not 0; the message has the `error:` line of its stderr, or else
        the last line.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started, start = time.time(), time.monotonic()
        process = subprocess.Popen(
            [sys.executable, *arguments], stdout=output, stderr=errors, cwd=folder
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            lines = filter(str.strip, errors.read().decode(errors="replace").splitlines())
            command = " ".join(arguments)[:200]
            raise RuntimeError(
                f"{command} exited with code {process.returncode}: {_reason([*lines])}"
            )
        return FinishedProcess(
            started, seconds, usage.ru_maxrss * PEAK_UNIT, output.read().decode(errors="replace")
        )


def train(*settings: str) -> tuple[FinishedProcess, list[dict[str, float]]]:
    """Runs the training command; returns the process and the rows of its metrics.jsonl."""
    with tempfile.TemporaryDirectory() as logdir:
        process = run(["-m", "agents.scripts.train", f"--logdir={logdir}", *settings])
        (metrics,) = Path(logdir).glob("*/metrics.jsonl")
        return process, [json.loads(line) for line in metrics.read_text().splitlines()]


def _reason(lines: Sequence[str]) -> str:
    last = lines[-1] if lines else "no error message"
    return next((line for line in lines if line.startswith("error:")), last)
