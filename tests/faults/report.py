"""Runs the fault harnesses, and writes FAULTS.md with the figures that they reach.

    python scripts/faults.py                                   # About two hours.
    python scripts/faults.py --figures=figures.jsonl -- -k stalls  # A part, beside earlier ones.

A file of figures keeps those of earlier runs; the newest of each harness count.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from benchmarks.machine import machine, versions
from tests.faults.figures import FILE, append

ROOT = Path(__file__).resolve().parents[2]

# A line of the file of figures: of `record`, or the outcome of a test.
Entry: TypeAlias = dict[str, object]

# By module in tests/faults, in the order of the table: what its harnesses are to show.
ASKED = {
    "test_environment_faults": "19 crash faults, 5 hang faults, 14 kinds of bad data in constructor, "
    "reset, step: 0 hangs, errors that name environment, process, signal, step; one deadline + 10 % "
    "however many hang; closed in 5 s; bad data never returned",
    "test_train_faults": "faults in `train`: exit code 1, at most 12 lines that name the environment",
    "test_killed_workers": "1,000 SIGKILLs of random workers during training: target steps reached, "
    "0 orphans, descriptors, segments; median restart at most 250 ms",
    "test_stalls": "10,000 steps with 1 % stalls, with and without restarts: 0 stale results",
    "test_killed_parent": "parent killed 50 times by each signal, workers idle, asleep, holding the "
    "GIL: 0 processes after 2 s",
    "test_stop_signals": "SIGINT, SIGTERM in a 5 s graph call, with hung worker environments, in "
    "evaluation, while saving, 20 each: at most 0.5 s + save + the graph call, final checkpoint, 130 "
    "or 143, at most 5 lines",
    "test_kills": "SIGKILL at 100 random moments, half inside a save: 100 resumes, at most one "
    "interval lost, nothing left over",
    "test_damaged_checkpoints": "newest checkpoint damaged in 600 ways: 600 fall back or "
    "refuse; 0 wrong values; 0 restarts from scratch",
    "test_runs_at_once": "the same run twice: refused within a second, exit code 2, naming pid and host",
    "test_resumption": "resumed against never stopped, 30 updates x 3 seeds x 3 stopping points, each "
    "backend: equal hashes",
    "test_full_disk": "full disk at checkpoints, events, metrics, while resuming: nothing lost, "
    "training continues, 1 line a failure",
    "test_hostile_runs": "40 hostile run folders: 0 executions, 0 files outside touched, each refused "
    "in 2 s, or read",
    "test_lost_learners": "learners of one run killed, stopped, cut off (interface of a network namespace "
    "down), 20 each: no process left after 30 s, named with the cause once, exit code 75, resumed equal to "
    "a run that was never disturbed; signals to any command; 20 starts of 4 learners",
    "test_lost_nodes": "a node of a Ray cluster killed 20 times: no process left after 30 s, its learner "
    "named once, exit code 75, resumed",
    "test_soak": "CartPole with p(crash) 1e-4 a step, 1e-3 a reset, p(stall) 5e-4 a step, restarted: at "
    "least 450, at most 10 % more steps than without",
    "test_leaks": "300 create, step, close cycles, 300 with a crash, 300 restarts: 0 descriptors, "
    "threads, children more; memory at most +5 MB",
}


class Outcomes:
    """A plugin of pytest that writes the outcome of each test into the file of figures."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Writes the outcome of a call, or of what failed or was skipped around it."""
        if report.when == "call" or not report.passed:
            outcome = {"test": report.nodeid, "outcome": report.outcome}
            append({**outcome, "date": time.strftime("%Y-%m-%d")})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns pytest's exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--markdown", type=Path, default=ROOT / "FAULTS.md", help="what to write")
    parser.add_argument("--figures", type=Path, help="file of figures to append to")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = (options.figures or Path(folder) / "figures.jsonl").resolve()
        path.touch()
        os.environ[FILE] = str(path)  # Commands that tests start append to it, too.
        # Slow ones included; whatever the configuration selects.
        selected = ["-m", "", *options.pytest] if "-m" not in options.pytest else options.pytest
        command = ["-p", "no:cacheprovider", str(ROOT / "tests" / "faults"), *selected]
        code = int(pytest.main(command, plugins=[Outcomes()]))
        entries = read(path)
    options.markdown.write_text(markdown(entries), encoding="utf-8")
    return code


def read(path: Path) -> list[Entry]:
    """Returns the entries of a file of figures."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def markdown(entries: Iterable[Entry]) -> str:
    """Returns the text of FAULTS.md for the entries of a file of figures."""
    figures: dict[object, Entry] = {}  # By harness; the newest, with those of long tests last.
    outcomes: dict[object, Entry] = {}  # By test.
    for entry in entries:
        if "harness" in entry:
            figures[entry["harness"]] = entry
        else:
            outcomes[entry["test"]] = entry
    lines = [
        "# Faults",
        "",
        "What the harnesses in `tests/faults` reach. Written by `python scripts/faults.py` "
        f"on {machine()}, with {', '.join(' '.join(one) for one in versions().items())}.",
        "",
        "| Harness | Asked | Reached | Date |",
        "|---|---|---|---|",
    ]
    others = {_module(test) for test in outcomes} - ASKED.keys() - {"test_report"}
    modules = [*ASKED, *sorted(others)]
    for module in modules:
        rows = list(_rows(module, figures.values(), outcomes))
        for name, reached, date in rows or [(module.removeprefix("test_"), "not run", "")]:
            cells = (name, ASKED.get(module, ""), reached, date)
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _rows(
    module: str, figures: Iterable[Entry], outcomes: dict[object, Entry]
) -> Iterable[tuple[str, str, str]]:
    """Yields name, what was reached and the date of each harness of a module."""
    shown = set()
    for entry in figures:
        test = entry["test"]
        if _module(test) == module:
            shown.add(test)
            outcome = outcomes.get(test, {})
            numbers = entry["figures"]
            assert isinstance(numbers, dict)
            text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in numbers.items())
            if outcome.get("outcome") != "passed":
                text = f"**{outcome.get('outcome', 'not finished')}**: {text}"
            yield str(entry["harness"]), text, str(outcome.get("date", ""))
    for test, outcome in outcomes.items():
        if _module(test) == module and test not in shown and outcome["outcome"] == "failed":
            yield str(test).partition("::")[2], "**failed**", str(outcome["date"])


def _module(test: object) -> str:
    """Returns the module of a test's id, such as "tests/faults/test_soak.py::test_one"."""
    return Path(str(test).partition("::")[0]).stem


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
