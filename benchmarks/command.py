r"""Measures this library and its peers in one run, and writes BENCHMARKS.md from what is stored.

    pip install -e '.[bench]'
    python scripts/benchmark.py --suite=all --markdown=benchmarks/details.md \
        --json=benchmarks/benchmarks.json --plot=benchmarks
    python scripts/benchmark.py --report
    python scripts/benchmark.py --suite=stepping --quick
    python scripts/benchmark.py --against=HEAD~1 --suite=training
    python scripts/benchmark.py --suite=clock
    python -m benchmarks.peers --help

--report measures nothing: it writes BENCHMARKS.md from the files in benchmarks/. --against compares
this checkout (`ours`) with another commit instead of with peers, after trainings of both have shown
whether they end in the same numbers; the exit code is 1 if they do not. A ratio above 1 means that
this checkout is better: faster, or smaller. The suite `clock` takes
hours, keeps every finished run, and is not part of all suites.

Peers that are not installed are left out; the last command tells how to install those that need a
Python environment of their own. Nothing else should run meanwhile: figures depend on the load of
the whole machine.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.case import OURS
from benchmarks.machine import load_average, machine, versions
from benchmarks.other_checkout import checked_out, end_in_equal_numbers
from benchmarks.page import Origin, write_page
from benchmarks.peers import installation
from benchmarks.report import Section, format_number, interval, write_markdown
from benchmarks.runner import ROOT
from benchmarks.suites import KEEPING, SUITES, runner_of
from benchmarks.summary import Entry, figures_of, summarize


def main() -> None:
    """Runs the command."""
    options = _parser().parse_args()
    if options.report:
        write_page()
        return
    if options.against and options.suite in KEEPING:
        sys.exit(
            f"error: --against: suite {options.suite} compares scores, not speeds; use another"
        )
    if options.rounds == 0 and options.suite not in KEEPING:
        sys.exit(f"error: --rounds: suite {options.suite} keeps no runs that could be shown, got 0")
    names = [name for name in SUITES if name not in KEEPING]
    names = names if options.suite == "all" else [options.suite]
    log(machine())
    start = time.monotonic()
    results: dict[str, Mapping[str, Entry]] = {}
    with contextlib.ExitStack() as stack:
        against = stack.enter_context(checked_out(options.against)) if options.against else None
        equal = against is None or end_in_equal_numbers(ROOT, against, log)
        for name in names:
            load = load_average()  # Of other programs, before this one adds to it.
            if section := run_suite(name, options.quick, options.only, options.rounds, against):
                results[section.suite] = section.results
                # After every suite, since a later one may fail or be interrupted.
                write(section, results, options, load)
    log(f"{time.monotonic() - start:.0f} seconds in total")
    if not any(results.values()):
        sys.exit("error: nothing could be measured; see above")
    if against and not equal:
        sys.exit(f"error: trainings end in other numbers than those of {against.name}; see above")


def write(
    section: Section,
    results: Mapping[str, Mapping[str, Entry]],
    options: argparse.Namespace,
    load: float,
) -> None:
    """Writes a suite to the files of the options, which keep what they have of suites not measured."""
    origin: Origin = {
        "command": shlex.join(["python", "scripts/benchmark.py", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "load": round(load, 1),
        "versions": {**versions(), **installation.versions()},
    }
    if options.json:
        before = json.loads(options.json.read_text()) if options.json.exists() else {}
        origins = {**before.get("origins", {}), section.suite: origin}
        content = {**before, **results, "origins": origins}
        options.json.write_text(json.dumps(content, indent=2) + "\n")
    occasion = f"on {origin['date']}, {machine()}, load average {load:.1f} before"
    if options.markdown:
        command = f"`{origin['command']}` {occasion}"
        write_markdown(options.markdown, [section], command, origin["versions"])
    if options.guide and section.suite == "distributed":
        from benchmarks.scaling_guide import write_guide

        write_guide(options.guide, section.results, f"Measured {occasion}")
    if options.plot and section.results:
        from benchmarks.plots import plot_suite

        path = plot_suite(section.suite, section.title, section.results, options.plot)
        log(f"plot: {path}")


def run_suite(
    name: str,
    quick: bool,
    only: str = "",
    rounds: int | None = None,
    against: Path | None = None,
) -> Section | None:
    """Measures the cases of a suite whose names contain `only`; returns None if there are none.

    Args:
      name: The suite.
      quick: Whether to measure fewer cases, in fewer and shorter rounds.
      only: Part of the names of the cases.
      rounds: Number of rounds; by default what each case says.
      against: Another checkout to compare with, instead of with peers; its name is the commit's.
    """
    suite = SUITES[name]
    results: dict[str, Entry] = {}
    left_out = []
    cases = [case for case in suite.cases(quick) if only in case.name]
    for case in cases:
        log(f"{name} {case.name}")
        case = dataclasses.replace(case, rounds=case.rounds if rounds is None else rounds)
        if against:
            case = case.against(against.name, against)
        outcome = runner_of(name)(case, log)
        if outcome.figures:
            results[case.name] = summarize(outcome)
            log(f"  {describe(results[case.name])}")
        # Variants of a peer fail for the same reason.
        for reason in dict.fromkeys(outcome.left_out.values()):
            names = [name for name, each in outcome.left_out.items() if each == reason]
            left_out.append(f"Left out of {case.name}: {', '.join(names)}: {reason}")
    return Section(name, suite.TITLE, suite.INTRO, results, left_out) if cases else None


def describe(entry: Entry) -> str:
    """Formats a case in one line."""
    figures = figures_of(entry)
    medians = [f"{name} {format_number(each['median'])}" for name, each in figures.items()]
    ratios = [
        f"{key} {format_number(value)}{interval(entry, key.removeprefix('ratio_'))}"
        for key, value in entry.items()
        if not isinstance(value, dict) and (key.startswith("ratio_") or key == "of_limit")
    ]
    parts = [f"{', '.join(medians)} [{figures[OURS]['unit']}]", ", ".join(ratios)]
    return "; ".join(filter(None, parts))


def log(text: str) -> None:
    """Prints a line of progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--suite", choices=[*SUITES, "all"], default="all", help="suite to measure (default: all)"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="measure only cases whose names contain TEXT"
    )
    parser.add_argument(
        "--quick", action="store_true", help="measure fewer cases, in fewer and shorter rounds"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="rounds, or seeds, of every case (default: what each says)",
    )
    parser.add_argument(
        "--against", metavar="COMMIT", help="compare with this commit instead of with peers"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the figures")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="folder for a plot of every suite")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="file for all tables: benchmarks/details.md"
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="write BENCHMARKS.md from the stored figures; measure nothing",
    )
    parser.add_argument(
        "--guide",
        type=Path,
        metavar="FILE",
        help="page with tables of the suite distributed, docs/guides/scaling.md",
    )
    return parser
