"""Measures this library and its peers in one run, and writes BENCHMARKS.md.

    pip install -e '.[bench]'
    python scripts/benchmark.py --suite=all --markdown=BENCHMARKS.md --json=benchmarks.json --plot=plots
    python scripts/benchmark.py --suite=stepping --quick

Peers that are not installed are left out. Nothing else should run meanwhile: figures are those of the whole machine.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.arena import compete
from benchmarks.case import OURS
from benchmarks.machine import machine, versions
from benchmarks.report import Section, number, write_markdown
from benchmarks.suites import SUITES
from benchmarks.summary import peers, summarize


def main() -> None:
    """Runs what was asked for, and writes it where it was asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=[*SUITES, "all"], default="all", help="what to measure (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose names contain this")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, and fewer cases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="where to draw a picture of every suite")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where to write tables, such as BENCHMARKS.md")
    options = parser.parse_args()
    say(machine())
    start = time.monotonic()
    results: dict[str, Any] = {}
    for name in list(SUITES) if options.suite == "all" else [options.suite]:
        if section := run(name, options.quick, options.only):
            results[section.suite] = section.results
            write(section, results, options)  # At once: what follows may fail, or be interrupted, after many minutes.
    say(f"{time.monotonic() - start:.0f} seconds in all")
    if not any(results.values()):
        sys.exit("error: nothing could be measured; see above")


def write(section: Section, results: dict[str, Any], options: argparse.Namespace) -> None:
    """Writes the suite that has just run where it was asked to; the JSON file gets all results so far."""
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    if options.markdown:
        command = shlex.join(["python", "scripts/benchmark.py", *sys.argv[1:]])
        origin = f"`{command}` on {time.strftime('%Y-%m-%d')}, {machine()}"
        write_markdown(options.markdown, [section], origin, versions())
    if options.plot and section.results:
        from benchmarks.plots import draw

        say(f"drawn: {draw(section.suite, section.title, section.results, options.plot)}")


def run(name: str, quick: bool, only: str = "") -> Section | None:
    """Runs a suite, or those of its cases whose names contain a text; returns None if there are none."""
    suite = SUITES[name]
    results: dict[str, Any] = {}
    left_out = []
    cases = [case for case in suite.cases(quick) if only in case.name]
    for case in cases:
        say(f"{name} {case.name}")
        outcome = compete(case, say)
        if outcome.figures:
            results[case.name] = summarize(outcome)
            say(f"  {line(results[case.name])}")
        left_out += [f"Left out of {case.name}: {who}: {why}" for who, why in outcome.left_out.items()]
    return Section(name, suite.TITLE, suite.INTRO, results, left_out) if cases else None


def line(entry: dict[str, Any]) -> str:
    """A case in one line."""
    figures = [f"{who} {number(entry[who]['median'])}" for who in (OURS, *peers(entry))]
    ratios = [f"{key} {number(entry[key])}" for key in entry if key.startswith("ratio_") or key == "of_limit"]
    return "; ".join(filter(None, [f"{', '.join(figures)} [{entry[OURS]['unit']}]", ", ".join(ratios)]))


def say(text: str) -> None:
    """Tells how it goes."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
