"""Runs the contestants of a case in turns, each in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agents.types import PlainData
from benchmarks.case import OURS, Case, Contestant
from benchmarks.contestant import Measurement
from benchmarks.machine import cores
from benchmarks.peers import installation

ROOT = Path(__file__).parents[1]
# Seconds that a contestant may take to prepare, or for one round: the longest goal takes minutes.
TIMEOUT = 600.0
PATIENCE = 10.0  # Seconds that it may take to clean up.

T = TypeVar("T")


@dataclass
class Outcome:
    """The measurements of a case.

    Attributes:
      case: The case.
      figures: One figure per round, by the name of the contestant; none of those that failed.
      notes: Notes on the measurements, by the name of the contestant.
      left_out: Reasons why contestants failed, by name.
      parts: Further numbers by name, a dictionary per round, by the name of the contestant.
    """

    case: Case
    figures: dict[str, list[float]]
    notes: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    parts: dict[str, list[Mapping[str, float]]] = field(default_factory=dict)


class ContestantError(Exception):
    """A contestant can't run here, or failed; the message gives the reason."""


def run_case(case: Case, log: Callable[[str], None] = lambda line: None) -> Outcome:
    """Measures a case: in every round one contestant after another, while the others wait.

    All contestants prepare at the same time, and run once before the first round; the order is
    reversed from round to round. One that fails is left out; without ours there is nothing to
    compare.

    Args:
      case: The case to measure.
      log: Receives a line for every contestant that is left out.

    Returns:
      The figures of all contestants that did not fail; none where ours did.
    """
    outcome = Outcome(case, figures={})
    with contextlib.ExitStack() as stack:
        directions = itertools.cycle([1, -1])
        processes: dict[str, ContestantProcess] = {}

        def leave_out(name: str, error: Exception) -> None:
            outcome.left_out[name] = str(error)
            log(f"  left out: {name}: {error}")

        def attempt(request: Callable[[ContestantProcess], T]) -> dict[str, T]:
            answers = {}
            for name, process in list(processes.items())[:: next(directions)]:
                if OURS in outcome.left_out:
                    break
                try:
                    answers[name] = request(process)
                except ContestantError as error:
                    leave_out(name, error)
                    processes.pop(name).close()
            return answers

        for each in case.contestants:
            try:
                processes[each.name] = stack.enter_context(ContestantProcess(each))
            except ContestantError as error:
                leave_out(each.name, error)

        attempt(lambda each: each.wait_until_ready())
        attempt(lambda each: each.measure(0.0))
        rounds = [attempt(lambda each: each.measure(case.seconds)) for _ in range(case.rounds)]
    if OURS not in outcome.left_out:
        outcome.figures = {name: [answers[name].value for answers in rounds] for name in processes}
        outcome.notes = {name: note for name in processes if (note := rounds[-1][name].note)}
        outcome.parts = {name: [answers[name].parts for answers in rounds] for name in processes}
    return outcome


class ContestantProcess:
    """The parent's side of a contestant's process; see `benchmarks.contestant` for the protocol."""

    def __init__(self, contestant: Contestant, own_session: bool = True):
        """Starts the process, which begins to prepare the workload.

        Args:
          contestant: What it runs.
          own_session: Whether it gets a session, so that it can be killed together with its child
            processes. Linux schedules sessions apart: processes that yield to each other share one.

        Raises:
          ContestantError: The environment of its peer was not installed.
        """
        python = _interpreter(contestant)
        self._errors = tempfile.TemporaryFile()
        # Python finds modules in the working directory before those of the path.
        root = contestant.tree or str(ROOT)
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.contestant"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path, **_thread_variables(contestant.threads)},
            cwd=contestant.tree or None,
            start_new_session=own_session,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        workload = {"function": contestant.function, "settings": contestant.settings}
        self._send({**workload, "cores": cores()[: contestant.cores]})

    def wait_until_ready(self) -> None:
        """Waits until the contestant is prepared; raises ContestantError if it fails."""
        self._receive()

    def measure(self, seconds: float) -> Measurement:
        """Measures the contestant once; raises ContestantError if it fails."""
        self._send({"seconds": seconds})
        return Measurement(**self._receive())

    def close(self) -> None:
        """Terminates the process and its child processes."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._stdout.close()
        self._errors.close()

    def __enter__(self) -> ContestantProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._errors.closed:
            self.close()

    def _send(self, message: Mapping[str, object]) -> None:
        # If the process has died, `_receive` raises with the reason.
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def _receive(self) -> dict[str, PlainData]:
        deadline, line = time.monotonic() + TIMEOUT, b""
        while not line.endswith(b"\n"):
            # Polled before reading: output from before the exit is still in the pipe.
            exited = self._process.poll() is not None
            if select.select([self._stdout], [], [], 0.0 if exited else 1.0)[0] and (
                chunk := os.read(self._stdout.fileno(), 1 << 16)
            ):
                line += chunk  # There is never more than one answer in the pipe.
            elif exited:  # Forks may keep the pipe open, so its end can't be waited for.
                code = self._process.returncode
                raise ContestantError(f"exited with code {code}: {self._last_error_line()}")
            elif time.monotonic() > deadline:
                raise ContestantError(f"no answer within {TIMEOUT:.0f} seconds")
        message: dict[str, PlainData] = json.loads(line)
        if "error" in message:
            raise ContestantError(message["error"][:300])
        return message

    def _last_error_line(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next(
            (line.strip()[:300] for line in reversed(lines) if line.strip()), "no error message"
        )


def _interpreter(contestant: Contestant) -> str:
    if not contestant.peer:
        return sys.executable
    try:
        return str(installation.interpreter(contestant.peer))
    except installation.PeerError as error:
        raise ContestantError(str(error)) from None


def _thread_variables(threads: int | None) -> dict[str, str]:
    """Returns variables that PyTorch, MKL and OpenBLAS read when they start."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {} if threads is None else dict.fromkeys(names, str(threads))
