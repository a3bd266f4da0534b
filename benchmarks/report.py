"""benchmarks/details.md: a section per suite, replaced when the suite has run; other sections are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.case import LIMIT, OURS
from benchmarks.suites import SUITES
from benchmarks.summary import Entry, figures_of, scalar
from benchmarks.targets import TARGETS

HEADER = """\
# Details of the benchmarks

[BENCHMARKS.md](../BENCHMARKS.md) has the figures that readers ask for; this file has all of them.
`scripts/benchmark.py` writes a section when its suite runs; the last sections are written by hand and kept.
Contestants are measured in turns in the same run, each in a process of its own; the figure is the median over the
rounds. A ratio is the median of the rounds' ratios, with its 95 % bootstrap interval: for speeds and times, how many
times as fast as the peer we are."""
BY_HAND = """\
## Gain of each optimization

| optimization | figure | before | after |
|:-|:-|-:|-:|
"""


@dataclass(frozen=True)
class Section:
    """The results of a suite.

    Attributes:
      suite: Its name in the JSON file.
      title: Its heading.
      intro: What is compared.
      results: Cases by name, as in the JSON file.
      left_out: Lines about contestants that were left out.
    """

    suite: str
    title: str
    intro: str
    results: Mapping[str, Entry]
    left_out: Sequence[str]


def write_markdown(
    path: Path, sections: Sequence[Section], origin: str, versions: Mapping[str, str]
) -> None:
    """Writes sections into the file, in place of those with the same titles.

    Args:
      path: benchmarks/details.md; a new file gets an empty section to be written by hand.
      sections: Suites that have run.
      origin: Command, machine and date, for each section.
      versions: Package versions by name.
    """
    old = split(path.read_text(encoding="utf-8")) if path.is_file() else {}
    old.pop("", None)
    versions_line = ", ".join(f"{name} {version}" for name, version in versions.items())
    new = {
        section.title: f"{markdown(section)}\n\n{origin}. With {versions_line}."
        for section in sections
    }
    titles = [suite.TITLE for suite in SUITES.values()]
    by_hand = [text for title, text in old.items() if title not in titles] or [BY_HAND]
    measured = [{**old, **new}[title] for title in titles if title in old or title in new]
    path.write_text(
        "\n\n".join(text.strip() for text in [HEADER, *measured, *by_hand]) + "\n", encoding="utf-8"
    )


def split(text: str) -> dict[str, str]:
    """Splits Markdown into sections by title; the text before the first heading has title ''."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return {
        part.partition("\n")[0].removeprefix("## ").strip() if part.startswith("## ") else "": part
        for part in parts
    }


def markdown(section: Section) -> str:
    """Renders a suite: what is compared, targets, and all figures."""
    lines = [f"## {section.title}", "", *section.intro.splitlines(), ""]
    lines += _target_rows(section)
    lines += [
        "| case | contestant | median | min | max | unit | ours / theirs | |",
        "|:-|:-|-:|-:|-:|:-|-:|:-|",
    ]
    for case, entry in section.results.items():
        lines += _case_rows(case, entry)
    lines += ["", *(f"- {line}" for line in section.left_out)] if section.left_out else []
    return "\n".join(lines)


def format_number(value: float) -> str:
    """Formats a number with three digits, or with all digits before the point."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def interval(entry: Entry, peer: str) -> str:
    """Formats the interval of the ratio to a peer, such as ` (0.98 to 1.03)`; empty without one."""
    low, high = scalar(entry, f"low_{peer}"), scalar(entry, f"high_{peer}")
    if low is None or high is None:
        return ""
    return f" ({format_number(low)} to {format_number(high)})"


def _case_rows(case: str, entry: Entry) -> list[str]:
    rows, figures = [], figures_of(entry)
    for name, figure in figures.items():
        ratio = scalar(entry, f"ratio_{name}")
        numbers = (figure["median"], figure["min"], figure["max"])
        cells = [case, name, *map(format_number, numbers), figure["unit"]]
        parts = [f"{format_number(part)} {key}" for key, part in figure.get("parts", {}).items()]
        notes = "; ".join(filter(None, [figure.get("note", ""), ", ".join(parts)]))
        cells += ["" if ratio is None else f"{format_number(ratio)}x{interval(entry, name)}", notes]
        rows.append("| " + " | ".join(cells) + " |")
    limit, share = scalar(entry, LIMIT), scalar(entry, "of_limit")
    if limit is not None and share is not None:
        number, unit = format_number(limit), figures[OURS]["unit"]
        rows.append(f"| {case} | {LIMIT} | {number} | | | {unit} | {100 * share:.0f} % of it | |")
    return rows


def _target_rows(section: Section) -> list[str]:
    rows = []
    for target in TARGETS:
        value = target.value({section.suite: section.results})
        if target.suite != section.suite or value is None:
            continue
        aim = "" if target.aim is None else format_number(target.aim)
        bound = f"{target.side} {format_number(target.bound)}"
        cells = [target.case, f"`{target.key}`", bound, aim]
        cells += [format_number(value), target.verdict(value)]
        rows.append("| " + " | ".join(cells) + " |")
    if not rows:
        return []
    return ["| case | figure | must be | aim | is | |", "|:-|:-|-:|-:|-:|:-|", *rows, ""]
