"""Comparisons of runs as text: a table, and a file for other programs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from agents.analysis.comparison import Group
from agents.errors import printable


def table_lines(groups: Sequence[Group], metric: str) -> list[str]:
    """Returns the lines of a table: the last scores of each group, and what they took."""
    lines = []
    for env in dict.fromkeys(group.env for group in groups):
        header = ("seeds", "last [95 % interval]", "best", "steps", "minutes", "steps/s", "group")
        rows = [header, *(_row(group) for group in groups if group.env == env)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines.append(printable(f"{env}, interquartile mean of {metric}:"))
        for *cells, label in rows:
            aligned = [cell.rjust(width) for cell, width in zip(cells, widths, strict=False)]
            lines.append(printable("  ".join(["", *aligned, label])))
    return lines


def _row(group: Group) -> tuple[str, ...]:
    """Returns the cells of a group's row."""
    low, high = group.low[group.last], group.high[group.last]
    interval = "no interval" if math.isnan(low) else f"{_score(low)}, {_score(high)}"
    steps, minutes = group.progress
    return (
        str(len(group.runs)),
        f"{_score(group.iqm[group.last])} [{interval}]",
        _score(group.best),
        f"{steps:,.0f}",
        f"{minutes:.1f}",
        "" if math.isnan(group.rate) else f"{group.rate:,.0f}",
        group.label,
    )


def _score(value: float) -> str:
    """Formats a score: returns of episodes as elsewhere, fractions with three digits."""
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def csv_text(groups: Sequence[Group]) -> str:
    """Returns the text of a CSV file, a row for each group and position."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["env", "group", groups[0].axis, "iqm", "low", "high", "seeds"])
    for group in groups:
        columns = (group.positions, group.iqm, group.low, group.high, group.num_seeds)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            writer.writerow([group.env, group.label, *map(_cell, row)])
    return text.getvalue()


def _cell(value: float) -> str:
    """Returns a number that can be read back exactly; nothing for NaN."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value == int(value) else str(value)
