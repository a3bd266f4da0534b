"""results/details.md: a section for each row of RESULTS.md."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from results.formatting import best_evaluations, decimals, figure, mean_and_deviation, short
from results.published import PROTOCOLS, SOURCES
from results.rows import ComparedRow, figures_of, target_of

HEADER = """\
# Details of the results

Every row of [RESULTS.md](../RESULTS.md) has a section here: curves, returns, published figures, notes, command.
`python scripts/results.py` writes this file from `results/results.json` and the hand-written `results/notes.yaml`.

- ± is the population standard deviation over seeds (divisor n). Of published figures it is over runs, except RL-Zoo's,
  which is over episodes of one run.
- **best** is the mean over seeds of each seed's best evaluation. The same episodes choose it and score it.
- **averaged** is the mean with the weights averaged over the last updates, for runs with `average_decay`.
- **median run** and speed are those of the seeds that were trained first; seeds added later do not change them.
- † marks off-policy algorithms.

Sources of the published figures:
"""


def details(table: Mapping[str, ComparedRow], notes: Mapping[str, str]) -> str:
    """Renders results/details.md.

    Args:
      table: Rows by label.
      notes: Notes by label, written by hand.
    """
    lines = [
        *HEADER.splitlines(),
        "",
        *(
            f"- {name}{' †' * source.off_policy}: {source.runs}; {PROTOCOLS[source.protocol]}; {source.versions}"
            for name, source in SOURCES.items()
        ),
    ]
    for label, row in table.items():
        lines += ["", *_section(label, row, notes.get(label, ""))]
    return "\n".join(lines) + "\n"


def _section(label: str, row: ComparedRow, note: str) -> list[str]:
    """Returns the lines of a row's section."""
    lines = [f"## {label}", ""]
    if "curves" in row:
        lines += [f"![Learning curves of {label}]({label}.png)", ""]
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
    digits = decimals(row["mean"])
    seeds = ", ".join(f"{one:,.{digits}f}" for one in row["returns"])
    lines = [
        f"{row['env']}, {row['steps']:,} steps: {mean_and_deviation(row)}.",
        f"Seeds: {seeds}.",
    ]
    averaged = row.get("averaged")
    best = f"Best: {short(best_evaluations(row))}."
    lines.append(best + (f" Averaged: {short(float(np.mean(averaged)))}." if averaged else ""))
    if figures := figures_of(row):
        texts = (f"{one.source} {figure(one)} ({SOURCES[one.source].protocol})" for one in figures)
        lines.append(f"Published: {'; '.join(texts)}.")
        reached = [one.source for one in figures if row["mean"] >= one.mean]
        lines.append(f"As good as: {', '.join(dict.fromkeys(reached)) or 'none of them'}.")
    if target := target_of(row):
        lines.append(f"Target: {target.source} {figure(target)}: {row['verdict']}.")
    return lines
