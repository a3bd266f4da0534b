"""Measures a peer's program by its own lines of progress, so that it runs as it is."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO


class Script:
    """A Python program in a process of its own, which is stopped between measurements.

    Only that process is stopped, so all of the work should happen there.
    """

    def __init__(self, arguments: Sequence[str], progress: str, steps: int, folder: Path):
        """Starts the program.

        Args:
          arguments: Those after `python`.
          progress: Regular expression that is found in the line it prints after each iteration.
          steps: Environment steps of an iteration.
          folder: Its working directory.
        """
        self._progress, self._steps = re.compile(progress.encode()), steps
        self._process = subprocess.Popen(
            [sys.executable, "-u", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        assert self._process.stdout is not None
        self._output: IO[bytes] = self._process.stdout

    def warm_up(self) -> None:
        """Waits for the end of the first iteration, and stops the program."""
        self._wait_for_progress()
        self._process.send_signal(signal.SIGSTOP)

    def measure(self, seconds: float) -> float:
        """Lets the program run for this time, and returns its environment steps per second.

        Whole iterations are measured: it was stopped in one, so the clock starts at its end.
        """
        self._process.send_signal(signal.SIGCONT)
        self._wait_for_progress()
        iterations, elapsed, start = 0, 0.0, time.perf_counter()
        while not iterations or elapsed < seconds:
            self._wait_for_progress()
            iterations, elapsed = iterations + 1, time.perf_counter() - start
        self._process.send_signal(signal.SIGSTOP)
        return iterations * self._steps / elapsed

    def close(self) -> None:
        """Kills the program."""
        self._process.kill()
        self._process.wait()
        self._output.close()

    def _wait_for_progress(self) -> None:
        last = b""
        for line in iter(self._output.readline, b""):
            if self._progress.search(line):
                return
            last = line.strip() or last
        reason = last.decode(errors="replace")
        raise RuntimeError(f"exited with code {self._process.wait()}: {reason}")
