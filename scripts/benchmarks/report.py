"""BENCHMARKS.md: one section a suite, rewritten when that suite has run; other sections stay as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.case import LIMIT, OURS
from benchmarks.suites import SUITES
from benchmarks.summary import peers
from benchmarks.targets import TARGETS

HEADER = """\
# Benchmarks

Written by `scripts/benchmark.py`; the last sections are by hand, and stay when it writes anew. Contestants work in
turns in the same run, each in a process of its own, ours first; what counts is the median over the rounds. A ratio
is the median of the rounds' ratios: for speeds and times it says how many times as fast as the peer we are."""
KEPT = """\
## What each optimisation bought

| optimisation | figure | before | after |
|:-|:-|-:|-:|
"""


@dataclass(frozen=True)
class Section:
    """A suite that has run.

    Attributes:
      suite: Its name in the JSON file.
      title: Its heading.
      intro: What was compared.
      results: Cases as in the JSON file.
      left_out: Lines about those that were left out.
    """

    suite: str
    title: str
    intro: str
    results: Mapping[str, Any]
    left_out: Sequence[str]


def write_markdown(path: Path, sections: Sequence[Section], origin: str, versions: Mapping[str, str]) -> None:
    """Writes the sections into the file, in place of those of the same titles.

    Args:
      path: BENCHMARKS.md; where it is new, it gets a section for lines by hand at its end.
      sections: Suites that have run.
      origin: Command, machine and date, for each section.
      versions: Of packages.
    """
    old = split(path.read_text(encoding="utf-8")) if path.is_file() else {}
    old.pop("", None)
    new = {section.title: f"{markdown(section)}\n\n{_versions(origin, versions)}" for section in sections}
    titles = [suite.TITLE for suite in SUITES.values()]
    by_hand = [text for title, text in old.items() if title not in titles] or [KEPT]
    measured = [{**old, **new}[title] for title in titles if title in old or title in new]
    path.write_text("\n\n".join(text.strip() for text in [HEADER, *measured, *by_hand]) + "\n", encoding="utf-8")


def split(text: str) -> dict[str, str]:
    """Sections of a Markdown text by the title of their heading, with it; what is before the first has none."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return {
        part.partition("\n")[0].removeprefix("## ").strip() if part.startswith("## ") else "": part for part in parts
    }


def markdown(section: Section) -> str:
    """A suite's section: what was compared, targets, and all figures."""
    lines = [f"## {section.title}", "", *section.intro.splitlines(), ""]
    lines += _targets(section)
    lines += ["| case | contestant | median | min | max | unit | ours / theirs | |", "|:-|:-|-:|-:|-:|:-|-:|:-|"]
    for case, entry in section.results.items():
        lines += _rows(case, entry)
    lines += ["", *(f"- {line}" for line in section.left_out)] if section.left_out else []
    return "\n".join(lines)


def number(value: float) -> str:
    """Three digits, or all before the point."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _rows(case: str, entry: Mapping[str, Any]) -> list[str]:
    rows = []
    for name in (OURS, *peers(entry)):
        figure, ratio = entry[name], entry.get(f"ratio_{name}")
        cells = [case, name, *(number(figure[key]) for key in ("median", "min", "max")), figure["unit"]]
        cells += ["" if ratio is None else f"{number(ratio)}x", figure.get("note", "")]
        rows.append("| " + " | ".join(cells) + " |")
    if LIMIT in entry:
        share = f"{100 * entry['of_limit']:.0f} % of it"
        rows.append(f"| {case} | {LIMIT} | {number(entry['limit'])} | | | {entry[OURS]['unit']} | {share} | |")
    return rows


def _targets(section: Section) -> list[str]:
    found = [(each, each.value({section.suite: section.results})) for each in TARGETS if each.suite == section.suite]
    rows = []
    for target, value in found:
        if value is not None:
            aim = "" if target.aim is None else number(target.aim)
            shown = [f"{target.side} {number(target.bound)}", aim, number(value), target.verdict(value)]
            rows.append("| " + " | ".join([target.case, f"`{target.key}`", *shown]) + " |")
    if not rows:
        return []
    return ["| case | figure | must be | aim | is | |", "|:-|:-|-:|-:|-:|:-|", *rows, ""]


def _versions(origin: str, versions: Mapping[str, str]) -> str:
    return f"{origin}. With {', '.join(f'{name} {version}' for name, version in versions.items())}."
