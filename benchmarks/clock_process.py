"""A training process that prints a line for every finished episode, watched for a limited time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from benchmarks.clock_runs import Episode
from benchmarks.episode_lines import read_episode
from benchmarks.runner import ROOT


@dataclass(frozen=True)
class Program:
    """A command that trains.

    Attributes:
      arguments: The interpreter and its arguments.
      variables: Environment variables to set.
    """

    arguments: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)


def watch(program: Program, clock: float) -> list[Episode]:
    """Runs a program in an empty folder, and kills it when its time is over.

    Args:
      program: What to run.
      clock: Its time in seconds, with the start of the process.

    Returns:
      The episodes that it told of.

    Raises:
      RuntimeError: It failed; the message has the last line of its stderr.
    """
    lines: list[tuple[float, str]] = []

    def read(stream: IO[str]) -> None:
        for line in stream:
            lines.append((time.monotonic(), line))

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        start = time.monotonic()
        process = subprocess.Popen(
            program.arguments,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**variables, **program.variables},
            cwd=folder,
            start_new_session=True,  # To kill it together with its child processes.
        )
        assert process.stdout is not None
        reader = threading.Thread(target=read, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            code = process.wait(clock)
        except subprocess.TimeoutExpired:
            code = 0
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.join()
            process.stdout.close()
        if code:
            errors.seek(0)
            reasons = [line.strip() for line in errors if line.strip()]
            last = reasons[-1][:300] if reasons else "no error message"
            raise RuntimeError(f"exited with code {code}: {last}")
    return [
        Episode(seconds - start, *episode)
        for seconds, line in lines
        if (episode := read_episode(line)) and seconds - start <= clock
    ]
