"""Lets the contestants of a case work in turns, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.case import OURS, Case, Contestant
from benchmarks.machine import cores

SCRIPTS = Path(__file__).parent.parent
TIMEOUT = 600.0  # Seconds that a contestant may take to get ready, or for one round: the longest goal takes minutes.
PATIENCE = 10.0  # Seconds that it may take to clean up.


@dataclass
class Outcome:
    """What came out of a case.

    Attributes:
      case: What was done.
      figures: Of every contestant that got through, one figure a round; all alike long.
      notes: Remarks on how a contestant worked, by name.
      left_out: Why a contestant did not get through, by name.
    """

    case: Case
    figures: dict[str, list[float]]
    notes: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


class ContestantFailure(Exception):
    """A contestant can't work here, or broke down; the message says why."""


def compete(case: Case, say: Callable[[str], None] = lambda line: None) -> Outcome:
    """Measures a case: in every round one contestant after another, while the others wait.

    They are prepared at the same time, and work once before anything counts. One that fails is left out, and without
    ours there is nothing to compare.

    Args:
      case: What to measure.
      say: Is told who is left out.
    """
    outcome = Outcome(case, figures={})
    with contextlib.ExitStack() as stack:
        children = {each.name: stack.enter_context(Child(each)) for each in case.contestants}

        def attempt(work: Callable[[Child], Any]) -> dict[str, Any]:
            answers = {}
            for name, child in list(children.items()):
                if OURS in outcome.left_out:
                    break
                try:
                    answers[name] = work(child)
                except ContestantFailure as failure:
                    outcome.left_out[name] = str(failure)
                    say(f"  left out: {name}: {failure}")
                    children.pop(name).close()
            return answers

        attempt(lambda child: child.wait_until_ready())
        attempt(lambda child: child.measure(0.0))
        rounds = [attempt(lambda child: child.measure(case.seconds)) for _ in range(case.rounds)]
    if OURS not in outcome.left_out:
        outcome.figures = {name: [answers[name]["value"] for answers in rounds] for name in children}
        outcome.notes = {name: rounds[-1][name]["note"] for name in children if rounds[-1][name]["note"]}
    return outcome


class Child:
    """The process of a contestant; see `benchmarks.child` for what is spoken."""

    def __init__(self, contestant: Contestant):
        """Starts to prepare the contestant."""
        self._errors = tempfile.TemporaryFile()
        path = os.pathsep.join([str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # So that it can be killed together with all that it started.
        )
        order = {"function": contestant.function, "settings": contestant.settings}
        self._send({**order, "cores": cores()[: contestant.cores]})

    def wait_until_ready(self) -> None:
        """Returns when the contestant can work. Raises ContestantFailure if it can't."""
        self._receive()

    def measure(self, seconds: float) -> dict[str, Any]:
        """Lets the contestant work; returns its `value` and `note`. Raises ContestantFailure if it breaks down."""
        self._send({"seconds": seconds})
        return self._receive()

    def close(self) -> None:
        """Ends the process and those that it started."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._errors.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._errors.closed:
            self.close()

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # Why it is gone is told where its answer is missing.
            self._process.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]

    def _receive(self) -> dict[str, Any]:
        stdout: Any = self._process.stdout
        deadline, line = time.monotonic() + TIMEOUT, b""
        while not line.endswith(b"\n"):
            ended = self._process.poll() is not None  # Asked first: what it said before its end is still there.
            if select.select([stdout], [], [], 0.0 if ended else 1.0)[0] and (
                chunk := os.read(stdout.fileno(), 1 << 16)
            ):
                line += chunk  # There is never more than the one answer.
            elif ended:  # Forks of it may hold the pipe open, so that its end alone would not tell.
                raise ContestantFailure(f"ended with code {self._process.returncode}: {self._last_words()}")
            elif time.monotonic() > deadline:
                raise ContestantFailure(f"no answer within {TIMEOUT:.0f} seconds")
        answer = json.loads(line)
        if "error" in answer:
            raise ContestantFailure(answer["error"][:300])
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "without a word")
