"""Runs the fault harnesses, and writes FAULTS.md and tests/faults/details.md with their figures.

    python scripts/faults.py                # About two hours.
    python scripts/faults.py -- -k stalls   # A part of the harnesses.
    python scripts/faults.py --report       # Runs nothing; writes the pages from the stored figures.

tests/faults/figures.jsonl keeps the newest figures of each harness.
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from benchmarks.machine import machine, versions
from tests.faults.figures import FILE, append

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "tests" / "faults" / "figures.jsonl"

# A line of the file of figures: of `record`, the outcome of a test, or the machine. Figures of harnesses
# that are gone have their requirement, `asked`.
Entry: TypeAlias = dict[str, object]

# What the harnesses of each module in tests/faults break, in the order of the table, their requirement, and the
# figures that FAULTS.md shows with their limits; None without a limit.
ASKED: dict[str, tuple[str, str, dict[str, float | None]]] = {
    "test_environment_faults": (
        "environments that crash, hang or return bad data",
        "an error that names the environment; no hang; no bad data returned",
        {"cases": None, "hangs": 0, "percent_over_the_deadline": 10, "returned": 0},
    ),
    "test_train_faults": (
        "faults of environments in `train`",
        "exit code 1; at most 12 lines that name the environment",
        {"cases": None, "hangs": 0, "most_lines": 12},
    ),
    "test_killed_workers": (
        "SIGKILL of workers",
        "no process, descriptor or segment left; median restart at most 250 ms",
        {
            "kills": None,
            "median_restart_ms": 250,
            "more_children": 0,
            "more_descriptors": 0,
            "more_segments": 0,
        },
    ),
    "test_stalls": (
        "steps with 1 % stalls",
        "no stale result",
        {"steps": None, "timeouts": None, "stale": 0},
    ),
    "test_killed_parent": (
        "SIGKILL of the parent, workers idle or busy",
        "no process left after 2 s",
        {"kills": None, "left": 0, "longest_seconds": 2},
    ),
    "test_stop_signals": (
        "SIGINT and SIGTERM, anywhere in training",
        "a final checkpoint within 0.5 s and the graph call",
        {
            "cases": None,
            "final_checkpoints": None,
            "most_seconds_to_checkpoint": 0.5,
            "most_seconds_to_exit": None,
        },
    ),
    "test_kills": (
        "SIGKILL of processes that train or save",
        "every run resumes; at most one interval lost",
        {"kills": None, "resumes": None, "most_steps_lost": None, "interval": None, "left_over": 0},
    ),
    "test_damaged_checkpoints": (
        "damaged checkpoints",
        "falls back or refuses; no wrong value",
        {
            "cases": None,
            "newest_still_right": None,
            "fell_back": None,
            "refused": None,
            "wrong_values": 0,
        },
    ),
    "test_runs_at_once": (
        "the same run started twice",
        "refused within 1 s",
        {"cases": None, "refused": None, "most_seconds": 1},
    ),
    "test_resumption": (
        "runs that are stopped and resumed, with any `env_backend`",
        "equal to a run that never stopped",
        {"resumed": None, "equal_hashes": None},
    ),
    "test_full_disk": (
        "full disks",
        "nothing lost; training continues",
        {"trainings": None, "failed_saves": None, "failed_appends": None, "lost": 0},
    ),
    "test_hostile_runs": (
        "hostile run folders",
        "refused or read; nothing executed",
        {"cases": None, "refused": None, "read": None, "executions": 0, "files_outside_touched": 0},
    ),
    "test_lost_learners": (
        "learners that are killed, hang or are cut off",
        "all learners end within 30 s; the cause named; resumed exactly",
        {
            "cases": None,
            "problems": 0,
            "most_seconds_to_last_end": 30,
            "checkpoints_that_differ": 0,
        },
    ),
    "test_lost_nodes": (
        "nodes of Ray that are killed",
        "all learners end within 30 s; the cause named; resumed",
        {"cases": None, "problems": 0, "most_seconds_to_last_end": 30},
    ),
    "test_soak": (
        "CartPole with crashes and stalls",
        "a score of at least 450; at most 10 % more steps",
        {
            "score_after_100000_steps": None,
            "restarts": None,
            "steps_to_450": None,
            "steps_to_450_without_faults": None,
        },
    ),
    "test_leaks": (
        "many batches of environments in one process",
        "no descriptor, thread or child more; memory at most +5 MB",
        {
            "create,_step,_close": None,
            "with_a_crash": None,
            "restarts": None,
            "more": None,
            "megabytes": None,
        },
    ),
}

PAGE = """\
# Faults

What happens when an environment crashes, a process is killed, or a file is damaged? Harnesses in `tests/faults`
break something many times and count the outcomes. A row sums the cases of its harnesses, and has their worst time and
oldest date.
`python scripts/faults.py --report` writes this page from `tests/faults/figures.jsonl`;
[the details](tests/faults/details.md) have each harness.
[Resuming and faults](docs/guides/faults.md) tells how to handle faults.
"""
REPEAT = """\
## Repeat

`python scripts/faults.py` runs every harness, and takes about two hours. `python scripts/faults.py -- -k stalls` runs a
part.
"""
DETAILS = """\
# Details of the fault harnesses

All figures of the newest run of each harness in `tests/faults`. `python scripts/faults.py --report` writes this file
from `tests/faults/figures.jsonl`; [FAULTS.md](../../FAULTS.md) is the short page.
"""


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
    parser.add_argument("--outdir", type=Path, default=ROOT, help="folder of FAULTS.md")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="file of figures")
    parser.add_argument("--report", action="store_true", help="run nothing; write the pages again")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args(arguments)
    code = 0
    if not options.report:
        code = _run(options.figures.resolve(), options.pytest)
    entries = read(options.figures)
    options.figures.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    for name, text in (("FAULTS.md", page(entries)), ("tests/faults/details.md", details(entries))):
        (options.outdir / name).parent.mkdir(parents=True, exist_ok=True)
        (options.outdir / name).write_text(text, encoding="utf-8")
    return code


def read(path: Path) -> list[Entry]:
    """Returns the newest entries of a file of figures: by harness, by test, and the machine."""
    newest: dict[object, Entry] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        newest[entry.get("harness") or entry.get("test") or "machine"] = entry
    tests = {entry["test"] for entry in newest.values() if "harness" in entry}
    return [
        entry
        for entry in newest.values()
        if "outcome" not in entry or entry["outcome"] != "passed" or entry["test"] in tests
    ]


def page(entries: Sequence[Entry]) -> str:
    """Returns the text of FAULTS.md: a row for the harnesses of each module, with a few figures."""
    harnesses = list(_harnesses(entries))
    gone = [name for _, name, figures, _, _ in harnesses if "asked" in figures]
    present = [harness for harness in harnesses if "asked" not in harness[2]]
    rows = ["| what breaks | asked | reached | date |", "|:-|:-|:-|:-|"]
    bad: list[str] = []
    above: list[str] = []
    for module, group in itertools.groupby(present, operator.itemgetter(0)):
        mine = list(group)
        title, asked, limits = ASKED.get(module, (module.removeprefix("test_"), "", {}))
        problems = [f"{name} {status}" for _, name, _, status, _ in mine if status]
        reached: dict[str, object] = {}
        for key, limit in limits.items():
            values = [
                _numbers(figures)[key] for _, _, figures, _, _ in mine if key in _numbers(figures)
            ]
            if values:
                reached[key] = _combined(key, values)
                if limit is not None and float(str(reached[key])) > limit:
                    above.append(f"{title} ({_text({key: reached[key]}, '')}, limit {limit:g})")
        bad += problems
        oldest = min(date for *_, date in mine)
        rows.append(_row(title, asked, _text(reached, "; ".join(problems)), oldest))
    dates = sorted({str(entry["date"]) for entry in entries if "date" in entry})
    lines = [
        *PAGE.splitlines(),
        *("", *rows, "", "## Where we lose", ""),
        f"- Failed or not run: {', '.join(bad) or 'no harness'}.",
        f"- Above the limit: {', '.join(above) or 'no figure'}.",
        f"- The figures are of {dates[0]} to {dates[-1]}. The code has changed since."
        if dates
        else "- Nothing was run.",
        f"- Measured once, without a harness today: {'; '.join(gone) or 'nothing'}.",
        *("", _origin(entries), "", *REPEAT.splitlines()),
    ]
    return "\n".join(lines) + "\n"


def _combined(name: str, values: list[object]) -> object:
    """Returns the largest of times and shares, the sum of counts, and what is alone as it is."""
    if len(values) == 1:
        return values[0]
    numbers = [value for value in values if isinstance(value, int | float)]
    assert len(numbers) == len(values), (name, values)
    is_count = not name.startswith(("most_", "longest_", "median_", "percent_", "interval"))
    return sum(numbers) if is_count else max(numbers)


def details(entries: Sequence[Entry]) -> str:
    """Returns the text of tests/faults/details.md: all harnesses with all figures."""
    rows = ["| harness | asked | reached | date |", "|:-|:-|:-|:-|"]
    for module, name, figures, status, date in _harnesses(entries):
        asked = str(figures.get("asked") or ASKED.get(module, ("", "", {}))[1])
        rows.append(_row(name, asked, _text(_numbers(figures), status), date))
    return "\n".join([*DETAILS.splitlines(), "", *rows, "", _origin(entries)]) + "\n"


def _run(path: Path, arguments: Sequence[str]) -> int:
    """Runs the harnesses and appends their figures to a file."""
    path.touch()
    os.environ[FILE] = str(path)  # Commands that tests start append to it, too.
    append({"machine": machine(), "versions": versions()})
    # Slow ones included; whatever the configuration selects.
    selected = list(arguments) if "-m" in arguments else ["-m", "", *arguments]
    command = ["-p", "no:cacheprovider", str(ROOT / "tests" / "faults"), *selected]
    return int(pytest.main(command, plugins=[Outcomes()]))


def _harnesses(entries: Sequence[Entry]) -> Iterator[tuple[str, str, Entry, str, str]]:
    """Yields module, name, entry of figures, status and date of each harness; a good status is empty."""
    figures = [entry for entry in entries if "harness" in entry]
    outcomes = {entry["test"]: entry for entry in entries if "outcome" in entry}
    others = {_module(entry["test"]) for entry in (*figures, *outcomes.values())}
    for module in [*ASKED, *sorted(others - ASKED.keys() - {"test_report"})]:
        mine = [entry for entry in figures if _module(entry["test"]) == module]
        for entry in mine:
            outcome = outcomes.get(entry["test"], {})
            status = str(outcome.get("outcome", "not finished"))
            status = "" if status == "passed" else status
            yield module, str(entry["harness"]), entry, status, str(outcome.get("date", ""))
        shown = {entry["test"] for entry in mine}
        failed = [
            one
            for test, one in outcomes.items()
            if _module(test) == module and test not in shown and one["outcome"] == "failed"
        ]
        for one in failed:
            yield module, str(one["test"]).partition("::")[2], {}, "failed", str(one["date"])
        if not mine and not failed:
            yield module, module.removeprefix("test_"), {}, "not run", ""


def _numbers(entry: Entry) -> dict[str, object]:
    numbers = entry.get("figures", {})
    assert isinstance(numbers, dict)
    return numbers


def _text(numbers: Mapping[str, object], status: str) -> str:
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in numbers.items())
    return ": ".join(filter(None, [f"**{status}**" if status else "", text]))


def _origin(entries: Sequence[Entry]) -> str:
    [*_, origin] = [{}, *(entry for entry in entries if "machine" in entry)]
    packages = origin.get("versions", {})
    assert isinstance(packages, dict)
    texts = ", ".join(f"{name} {version}" for name, version in packages.items())
    return f"Machine of the newest run: {origin.get('machine', 'unknown')}. Versions: {texts}."


def _module(test: object) -> str:
    """Returns the module of a test's id, such as "tests/faults/test_soak.py::test_one"."""
    return Path(str(test).partition("::")[0]).stem


def _row(*cells: str) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
