"""Rows of the results: the runs of all seeds, and their comparison with published returns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypedDict

from agents.errors import UsageError
from results.learning_curves import Curves, short_steps
from results.published import Figure, best, published
from results.runs import Run

OWN = "own"  # Source of targets that a command names.
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
    there are any; `std` is their population standard deviation over the seeds. `versions` are those of
    the last run's packages, and `kept_run` is the folder of the median run's weights. Seeds that were
    added later change neither this nor `seconds` and `steps_per_second`. `own_target` raises the
    target, or removes it if it is None. Old rows are of PPO and have no preset, no algorithm,
    no curves and no versions.
    """

    preset: str
    algorithm: str
    curves: Curves
    averaged: list[float]
    versions: dict[str, str]
    kept_run: str
    own_target: float | None


class PublishedFigure(TypedDict):
    """A published return, as `results.published.Figure`."""

    source: str
    mean: float
    steps: int
    std: float | None


class ComparedRow(Row):
    """A row with the figures that it is compared with; those of old files are replaced."""

    published: list[PublishedFigure]
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
        "algorithm": runs[0].algorithm,
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


def add_seeds(row: Row, more: Row) -> Row:
    """Returns a row with seeds that were trained later, after its own.

    Its speed and its kept run stay: machines may differ, and the runs before may be gone.

    Raises:
      UsageError: The new runs have evaluations at other steps.
    """
    before, after = row["curves"], more["curves"]
    if before["steps"] != after["steps"]:
        raise UsageError(
            f"the row's evaluations are at steps {before['steps']}, those of the new seeds at "
            f"{after['steps']}; expected equal ones"
        )
    returns = row["returns"] + more["returns"]
    joined: Row = {
        **row,
        "returns": returns,
        "mean": statistics.fmean(returns),
        "std": statistics.pstdev(returns),
        "curves": {"steps": before["steps"], "returns": before["returns"] + after["returns"]},
        "command": more["command"],
    }
    if "averaged" in row:
        joined["averaged"] = row["averaged"] + more["averaged"]
    return joined


def compare(row: Row) -> ComparedRow:
    """Adds published figures, the target and the verdict."""
    target = target_of(row)
    return {
        **row,
        "published": [_as_dict(figure) for figure in figures_of(row)],
        "target": _as_dict(target) if target else None,
        "verdict": verdict(row),
    }


def figures_of(row: Row) -> tuple[Figure, ...]:
    """Returns the published figures of the row's task."""
    sticky = '"repeat_action_probability":0.25' in row["command"]
    return published(row["env"] + ", sticky" * sticky)


def target_of(row: Row) -> Figure | None:
    """Returns the best published figure for the row's steps, of any algorithm, or its own if that is higher."""
    figure = best(figures_of(row), row["steps"])
    if "own_target" not in row:
        return figure
    own = row["own_target"]
    if own is None or (figure and figure.mean >= own):
        return None if own is None else figure
    return Figure(OWN, own, row["steps"])


def on_policy_of(row: Row) -> Figure | None:
    """Returns the best published figure for the row's steps of on-policy algorithms."""
    return best([figure for figure in figures_of(row) if not figure.off_policy], row["steps"])


def reaches(row: Row, figure: Figure) -> bool:
    """Returns whether the row's mean is as high as a figure after as many steps or fewer."""
    return row["mean"] >= figure.mean and row["steps"] <= figure.steps * (1 + NEAR)


def verdict(row: Row) -> str:
    """Returns which published figures a row of several seeds reaches; empty without a target."""
    target, on_policy = target_of(row), on_policy_of(row)
    if len(row["returns"]) < 2:
        return "one seed"
    if target is None:
        return ""
    if reaches(row, target):
        return "reached"
    if on_policy and target.off_policy and reaches(row, on_policy):
        return "on-policy only"
    if row["mean"] >= target.mean:
        return f"late: {short_steps(row['steps'])} of {short_steps(target.steps)}"
    return "missed"


def _as_dict(figure: Figure) -> PublishedFigure:
    return {
        "source": figure.source,
        "mean": figure.mean,
        "steps": figure.steps,
        "std": figure.std,
    }
