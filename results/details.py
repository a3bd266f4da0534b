"""results/details.md: a section for each row of RESULTS.md."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from results.formatting import (
    aligned,
    best_evaluations,
    decimals,
    figure,
    mean_and_deviation,
    plain,
    short,
)
from results.learning_curves import short_steps
from results.published import PROTOCOLS, SOURCES, best
from results.rows import OWN, ComparedRow, figures_of, on_policy_of, target_of

HEADER = """\
# Details of the results

All rows of `results/results.json`, then a section for each: curves, returns, published figures, notes, command. The
command replaces the row and its plot. `python scripts/results.py` trains nothing, and writes this file and
[RESULTS.md](../RESULTS.md); notes are hand-written, in `results/notes.yaml`.

## All rows
"""
READING = """\
- **task**: the preset. Rows such as `hopper_3m` are a preset with other settings, which their sections have.
- **min**: minutes of one run on one core, from the start of its process to its exit. Up to two runs shared the machine;
  the notes name rows whose times are of an earlier training. Runs that were resumed have none.
- **return**: 20 episodes with deterministic actions after the last update, as mean ± population standard deviation over
  the seeds (divisor n). ± means this everywhere here. Seeds count from 0.
- **on-policy**: the highest return that other libraries publish for PPO or RPO, with its steps.
- **any algorithm**: the highest published return. † marks off-policy algorithms. `own`: our own target, which
  is higher.
- **reached**: our mean is at least *any algorithm*. **on-policy only**: our mean is at least *on-policy*.
- **late**: our mean is high enough, but took more steps. It does not count as reached. **missed**: none of these.

A row is compared with published runs of up to 1.5 times its steps. If there are none, the best run of any length
counts. Rows without figures are baselines, or we know no published return. Rows of one seed say little.
"""
SECTIONS = """\
In the sections:

- **best** is the mean over seeds of each seed's best evaluation. The same episodes choose it and score it.
- **averaged** is the mean with the weights averaged over the last updates, for runs with `average_decay`.
- **median run** and speed are those of the seeds that were trained first; seeds added later do not change them.
- ± of published figures is over runs, except RL-Zoo's, which is over episodes of one run. In brackets: the protocol;
  the sources below tell more.

Sources of the published figures:
"""


def details(table: Mapping[str, ComparedRow], notes: Mapping[str, str]) -> str:
    """Renders results/details.md.

    Args:
      table: Rows by label.
      notes: Notes by label, written by hand.
    """
    early = [label for label, row in table.items() if "agents" not in row.get("versions", {})]
    lines = [
        HEADER,
        *_table(table),
        "",
        READING,
        f"{_mujoco(table)} Trained before KL limits and correlated noise changed "
        f"(26 November 2026), so equal seeds may now differ: {', '.join(early) or 'no row'}.",
        "",
        SECTIONS,
        *(
            f"- {name}{' †' * source.off_policy}: {source.runs}; {PROTOCOLS[source.protocol]}; {source.versions}"
            for name, source in SOURCES.items()
        ),
    ]
    for label, row in table.items():
        lines += ["", *_section(label, row, notes.get(label, ""))]
    return "\n".join(lines) + "\n"


def _table(rows: Mapping[str, ComparedRow]) -> list[str]:
    header = ["task", "steps", "seeds", "min", "return", "on-policy", "any algorithm", "verdict"]
    return aligned([header, *(_cells(label, row) for label, row in rows.items())], "<>>>>>><")


def _cells(label: str, row: ComparedRow) -> list[str]:
    """Returns the cells of one row, in the order of the columns."""
    target, on_policy = target_of(row), on_policy_of(row)
    if target is None and len(row["returns"]) == 1:
        target = best(figures_of(row), row["steps"])
    return [
        f"[{label}](#{label})",
        short_steps(row["steps"]),
        str(len(row["returns"])),
        f"{row['seconds'] / 60:.1f}" if row["seconds"] else "",
        mean_and_deviation(row),
        plain(on_policy if target else None),
        plain(target),
        f"**{row['verdict']}**" if row["verdict"] == "missed" else row["verdict"],
    ]


def _mujoco(table: Mapping[str, ComparedRow]) -> str:
    """Returns a sentence on MuJoCo's versions."""
    users: dict[str, set[str]] = {}
    for row in table.values():
        if version := row.get("versions", {}).get("mujoco"):
            suite = "dm_control" if row["env"].startswith("dm_control/") else "Gymnasium"
            users.setdefault(version, set()).add(suite)
    texts = [
        f"{version} (tasks of {' and '.join(sorted(users[version]))})" for version in sorted(users)
    ]
    return f"MuJoCo's versions: {', '.join(texts) or 'none'}."


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
        lines.append(f"Ours is at least that of: {', '.join(dict.fromkeys(reached)) or 'none'}.")
    if target := target_of(row):
        source = "a target of ours," if target.source == OWN else target.source
        lines.append(f"Compared with {source} {figure(target)}: {row['verdict']}.")
    return lines
