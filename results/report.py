"""RESULTS.md and results.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import numpy as np

from agents.runs.comparison import bootstrap_interval
from results.learning_curves import short_steps
from results.published import PROTOCOLS, SOURCES, Figure
from results.rows import ComparedRow, task_of

HEADER = """\
# Results

Returns of 20 episodes with deterministic actions, of several seeds; written by `scripts/results.py`.

Returns are means over seeds; `agents train --list` shows those of **last**, and targets are compared with them.

- **last**: the last checkpoint's, with the 95 % bootstrap interval of the mean.
- **best**: that of each seed's best evaluation. It is chosen by the episodes that it is scored on.
- **avg**: with the weights averaged over the last updates, for runs with `average_decay`.
- **min**: wall-clock minutes of one run, from the start of its process to its exit, with as many runs at a time as its
  command says.

A target is reached late if it took more steps than are named with it. Published figures are returns of other
libraries' PPO; their environments' versions, settings and protocols differ:
"""
COLUMNS = ["task", "steps", "seeds", "min", "last", "best", "avg", "target", ""]


def markdown(table: Mapping[str, ComparedRow], notes: Mapping[str, str]) -> str:
    """Renders RESULTS.md: a table that fits a screen, and a section for each row.

    Args:
      table: Rows by label.
      notes: Notes by label, written by hand.
    """
    lines = [
        *HEADER.splitlines(),
        "",
        *(
            f"- {name}: {source.runs}; {PROTOCOLS[source.protocol]}; {source.versions}"
            for name, source in SOURCES.items()
        ),
        "",
        _count_targets(table),
        "",
        *_aligned([COLUMNS, *(_cells(label, row) for label, row in table.items())]),
    ]
    for label, row in table.items():
        lines += ["", *_section(label, row, notes.get(label, ""))]
    # Links are defined at the end, for the table to stay narrow.
    lines += ["", *(f"[{label}]: #{label}" for label in table)]
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
    verdict = "late" if row["verdict"].startswith("reached, but") else row["verdict"]
    target = task_of(row).target
    averaged = row.get("averaged")
    return [
        f"[{label}]",
        short_steps(row["steps"]),
        str(len(row["returns"])),
        f"{row['seconds'] / 60:.1f}" if row["seconds"] else "",
        _last(row),
        _short(_best(row)),
        _short(float(np.mean(averaged))) if averaged else "",
        f"{target.mean:g}" if target else "",
        f"**{verdict.partition(',')[0]}**" if verdict.startswith("MISSED") else verdict,
    ]


def _aligned(rows: list[list[str]]) -> list[str]:
    """Returns a table whose columns have the width of their longest cell; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for cells in rows:
        first, *numbers, last = zip(cells, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in numbers)]
        lines.append(f"| {' | '.join([*padded, last[0].ljust(last[1])])} |")
    rule = [f":{'-' * (widths[0] + 1)}", *(f"{'-' * (width + 1)}:" for width in widths[1:-1])]
    return [lines[0], f"|{'|'.join([*rule, ':' + '-' * (widths[-1] + 1)])}|", *lines[1:]]


def _section(label: str, row: ComparedRow, note: str) -> list[str]:
    """Returns the lines of a row's section: plot, returns, published figures, note and command."""
    lines = [f"## {label}", ""]
    if "curves" in row:
        lines += [f"![Learning curves of {label}](results/{label}.png)", ""]
    lines += [*_returns(row), ""]
    if note:
        lines += [note.strip(), ""]
    if "kept_run" in row:
        show = f"python -m agents.scripts.visualize --logdir={row['kept_run']} --outdir=videos"
        lines += [f"The median run: `{show}`", ""]
    seconds = f"{row['seconds']:.0f} s per run" if row["seconds"] else "all runs were resumed"
    packages = "".join(f", {name} {version}" for name, version in row.get("versions", {}).items())
    measured = f"{seconds}, {row['steps_per_second']:,.0f} steps/s{packages}"
    return [*lines, f"`{row['command']}` ({measured})"]


def _returns(row: ComparedRow) -> list[str]:
    """Returns lines on our returns and the published ones."""
    returns, figures = row["returns"], task_of(row).figures
    least, most = (f"{one:.{_decimals(row['mean'])}f}" for one in (min(returns), max(returns)))
    lines = [
        f"{row['env']}, {row['steps']:,} steps: {_mean(row)}"
        + (f", from {least} to {most}." if len(returns) > 1 else ".")
    ]
    if figures:
        texts = (
            f"{source} {_format_figure(figure)} ({SOURCES[source].protocol})"
            for source, figure in figures.items()
        )
        lines.append(f"Published: {'; '.join(texts)}.")
        lines.append(f"As good as: {', '.join(row['as_good_as']) or 'none of them'}.")
    if row["verdict"]:
        target = _format_figure(task_of(row).target)
        lines.append(f"Target {target}: {row['verdict'].replace('MISSED', '**MISSED**')}.")
    return lines


def _last(row: ComparedRow) -> str:
    """Returns the mean over seeds of the last evaluation, and its 95 % interval."""
    mean = _short(row["mean"])
    if len(row["returns"]) < 2:
        return mean
    low, high = bootstrap_interval(np.array(row["returns"]), lambda scores: scores.mean(axis=-1))
    return f"{mean} [{_short(low)}, {_short(high)}]"


def _best(row: ComparedRow) -> float:
    """Returns the mean over seeds of the best evaluation; of old rows, of the last one."""
    curves = row["curves"]["returns"] if "curves" in row else [[] for _ in row["returns"]]
    pairs = zip(curves, row["returns"], strict=True)
    bests = [max([last, *curve[:-1]]) for curve, last in pairs]
    return max(float(np.mean(bests)), row["mean"])  # The returns of a row are rounded.


def _short(number: float) -> str:
    return f"{number:.{0 if abs(number) >= 1000 else _decimals(number)}f}"


def _decimals(number: float) -> int:
    """Returns the decimals to show; returns of MiniGrid, for example, are below one."""
    return 1 if abs(number) >= 2 else 2


def _mean(row: ComparedRow) -> str:
    """Returns mean and standard deviation over the seeds; of a single one there is none."""
    decimals = _decimals(row["mean"])
    spread = f" ± {row['std']:.{decimals}f}" if len(row["returns"]) > 1 else ""
    return f"{row['mean']:.{decimals}f}{spread}"


def _format_figure(figure: Figure | None) -> str:
    if figure is None:
        return ""
    spread = "" if figure.std is None else f" ± {figure.std:g}"
    return f"{figure.mean:g}{spread} ({short_steps(figure.steps)})"
