"""Rows of the results: the runs of all seeds, and their comparison with published returns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypedDict

from results.learning_curves import Curves, short_steps
from results.published import Figure, Task, published
from results.runs import Run

NEAR = 0.02  # Relative difference of steps that count as equal: runs end with a whole rollout.


class _Row(TypedDict):
    env: str
    steps: int
    returns: list[float]
    mean: float
    std: float
    seconds: float | None
    steps_per_second: float
    command: str


class Row(_Row, total=False):
    """A row of results.json: statistics over the seeds of one preset.

    `returns` are those of the last evaluations, `averaged` those of the averaged weights then, where
    there are any. `versions` are those of the last run's packages, and `kept_run` is the folder of the
    median run's weights. `own_target` replaces the environment's target, or removes it if it is None.
    Old rows have no preset, no curves and no versions.
    """

    preset: str
    curves: Curves
    averaged: list[float]
    versions: dict[str, str]
    kept_run: str
    own_target: float | None


class PublishedFigure(TypedDict):
    """A published return, as `results.published.Figure`."""

    mean: float
    steps: int
    std: float | None


class ComparedRow(Row):
    """A row with the figures that it is compared with; those of old files are replaced."""

    published: dict[str, PublishedFigure]
    as_good_as: list[str]
    target: PublishedFigure | None
    verdict: str


def summarize(preset: str, runs: Sequence[Run], command: str) -> Row:
    """Summarizes the runs of one preset, one per seed, which `command` trained."""
    curves = [run.curve for run in runs]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    returns = [curve[steps[-1]] for curve in curves]
    whole = [run.seconds for run in runs if not run.resumed]
    row: Row = {
        "preset": preset,
        "env": runs[0].env,
        "steps": steps[-1],
        "returns": [round(value, 3) for value in returns],
        "mean": statistics.fmean(returns),
        "std": statistics.pstdev(returns),
        "seconds": statistics.fmean(whole) if whole else None,
        "steps_per_second": statistics.median(run.steps_per_second for run in runs),
        "curves": {
            "steps": steps,
            "returns": [[round(curve[step], 2) for step in steps] for curve in curves],
        },
        "command": command,
    }
    averaged = [run.averaged for run in runs if run.averaged is not None]
    if len(averaged) == len(runs):
        row["averaged"] = [round(value, 3) for value in averaged]
    if runs[-1].versions:
        row["versions"] = runs[-1].versions
    return row


def compare(row: Row) -> ComparedRow:
    """Adds published figures, the sources that the row reaches, the target and the verdict."""
    task = task_of(row)
    return {
        **row,
        "published": {source: _as_dict(figure) for source, figure in task.figures.items()},
        "as_good_as": [
            source for source, figure in task.figures.items() if row["mean"] >= figure.mean
        ],
        "target": _as_dict(task.target) if task.target else None,
        "verdict": verdict(row["mean"], row["steps"], task.target),
    }


def task_of(row: Row) -> Task:
    """Returns the published figures of the row's environment, and the target of this row."""
    task = published(row["env"])
    if "own_target" not in row:
        return task
    target = row["own_target"]
    return Task(task.figures, None if target is None else Figure(target, row["steps"]))


def verdict(mean: float, steps: int, target: Figure | None) -> str:
    """Returns whether a target is reached, and with how many steps; empty without a target."""
    if target is None:
        return ""
    if mean >= target.mean:
        late = steps > target.steps * (1 + NEAR)
        return f"reached, but with {short_steps(steps)} steps" if late else "reached"
    early = steps < target.steps * (1 - NEAR)
    return f"MISSED, with {short_steps(steps)} steps" if early else "MISSED"


def _as_dict(figure: Figure) -> PublishedFigure:
    return {"mean": figure.mean, "steps": figure.steps, "std": figure.std}
