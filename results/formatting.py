"""Numbers and tables as the pages show them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from results.learning_curves import short_steps
from results.published import Figure
from results.rows import OWN, Row


def decimals(number: float) -> int:
    """Returns the decimals to show; returns of MiniGrid, for example, are below one."""
    return 1 if abs(number) >= 2 else 3


def short(number: float) -> str:
    """Formats a return: whole from a thousand on."""
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.{decimals(number)}f}"


def mean_and_deviation(row: Row) -> str:
    """Formats the mean and the population standard deviation over the seeds; of one seed, its return."""
    digits = 0 if abs(row["mean"]) >= 1000 else decimals(row["mean"])
    spread = f" ± {row['std']:,.{digits}f}" if len(row["returns"]) > 1 else ""
    return f"{row['mean']:,.{digits}f}{spread}"


def figure(published: Figure | None) -> str:
    """Formats a published return and its steps; off-policy algorithms and own targets are marked."""
    if published is None:
        return ""
    spread = "" if published.std is None else f" ± {published.std:,g}"
    mark = " †" if published.off_policy else " own" if published.source == OWN else ""
    return f"{published.mean:,g}{spread} ({short_steps(published.steps)}){mark}"


def plain(published: Figure | None) -> str:
    """Formats a published return without its deviation."""
    return figure(published and Figure(published.source, published.mean, published.steps))


def best_evaluations(row: Row) -> float:
    """Returns the mean over seeds of the best evaluation; of old rows, of the last one."""
    curves = row["curves"]["returns"] if "curves" in row else [[] for _ in row["returns"]]
    pairs = zip(curves, row["returns"], strict=True)
    bests = [max([last, *curve[:-1]]) for curve, last in pairs]
    return max(float(np.mean(bests)), row["mean"])  # The returns of a row are rounded.


def aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Returns a Markdown table whose columns have the width of their longest cell.

    Args:
      rows: Header and rows.
      sides: For each column, `<` for text and `>` for numbers.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"| {' | '.join(f'{c:{s}{w}}' for c, s, w in zip(cells, sides, widths, strict=True))} |"
        for cells in rows
    ]
    rule = [
        f":{'-' * (width + 1)}" if side == "<" else f"{'-' * (width + 1)}:"
        for side, width in zip(sides, widths, strict=True)
    ]
    return [lines[0], f"|{'|'.join(rule)}|", *lines[1:]]
