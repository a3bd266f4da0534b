"""RESULTS.md and results.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from results.learning_curves import short_steps
from results.published import SOURCES, Figure
from results.rows import ComparedRow, task_of

HEADER = """\
# Results

Mean return of 20 episodes with deterministic actions, scored with the last checkpoint, over seeds; written
by `scripts/results.py`. Seconds are wall-clock time of one run, from the start of its process to its exit, and
steps/s are environment steps during training, both with as many runs at a time as the command says. Published
figures are returns of other libraries' PPO, with the steps after which they were reached; their environment
versions and settings differ:
"""


def markdown(table: Mapping[str, ComparedRow], notes: Mapping[str, str]) -> str:
    """Renders RESULTS.md.

    Args:
      table: Rows by label.
      notes: Notes by label, written by hand.
    """
    columns = ["row", "environment", "steps", "seeds", "mean", "worst", "best", "target", ""]
    columns += ["as good as", *SOURCES]
    lines = [
        *HEADER.splitlines(),
        "",
        *(f"- {source}: {description}" for source, description in SOURCES.items()),
        "",
        _count_targets(table),
        "",
        _table_row(columns),
        "|:-|:-|-:|-:|-:|-:|-:|-:|:-|:-|" + "-:|" * len(SOURCES),
        *(_table_row(_cells(label, row)) for label, row in table.items()),
    ]
    for label, row in table.items():
        lines += ["", *_section(label, row, notes.get(label, ""))]
    return "\n".join(lines) + "\n"


def compact_json(table: Mapping[str, ComparedRow]) -> str:
    """Formats JSON with every list of numbers on one line."""
    return re.sub(
        r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found[0].split()), json.dumps(table, indent=2)
    )


def _count_targets(table: Mapping[str, ComparedRow]) -> str:
    """Returns a sentence on how many targets are reached, and which are not."""
    missed = [
        f"[{label}](#{label})"
        for label, row in table.items()
        if row["verdict"].startswith("MISSED")
    ]
    total = sum(bool(row["verdict"]) for row in table.values())
    rest = f"**Missed: {', '.join(missed)}.**" if missed else "None is missed."
    return f"{total - len(missed)} of {total} targets are reached. {rest}"


def _cells(label: str, row: ComparedRow) -> list[str]:
    """Returns the cells of one row, in the order of the columns."""
    task, returns = task_of(row), row["returns"]
    return [
        f"[{label}](#{label})",
        row["env"],
        f"{row['steps']:,}",
        str(len(returns)),
        f"{row['mean']:.1f} ± {row['std']:.1f}",
        f"{min(returns):.1f}",
        f"{max(returns):.1f}",
        _format_figure(task.target),
        row["verdict"].replace("MISSED", "**MISSED**"),
        ", ".join(row["as_good_as"]),
        *(_format_figure(task.figures.get(source)) for source in SOURCES),
    ]


def _table_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _section(label: str, row: ComparedRow, note: str) -> list[str]:
    """Returns the lines of a row's section: its plot, its note and its command."""
    lines = [f"## {label}", ""]
    if "curves" in row:
        lines += [f"![Learning curves of {label}](results/{label}.png)", ""]
    if note:
        lines += [note.strip(), ""]
    seconds = f"{row['seconds']:.0f} s per run" if row["seconds"] else "all runs were resumed"
    return [*lines, f"`{row['command']}` ({seconds}, {row['steps_per_second']:,.0f} steps/s)"]


def _format_figure(figure: Figure | None) -> str:
    if figure is None:
        return ""
    spread = "" if figure.std is None else f" ± {figure.std:g}"
    return f"{figure.mean:g}{spread} ({short_steps(figure.steps)})"
