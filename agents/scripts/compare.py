"""Compares runs over their seeds: `python -m agents.scripts.compare logdir --outdir=comparison`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from agents.errors import UsageError, first_line
from agents.paths import absolute_path
from agents.regular_files import write_atomically
from agents.runs.comparison import (
    Axis,
    Group,
    RunScores,
    compare_runs,
    csv_text,
    read_scores,
    table_lines,
)
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import (
    SWEEP_FILE,
    RunDirectory,
    check_writable,
    find_runs,
    resolve_run,
)
from agents.settings.parser import parse_command
from agents.settings.reports import run, say
from agents.suggestion import did_you_mean

EXAMPLES = """\
examples:
  agents compare logdir --outdir=comparison
  agents compare logdir/*-pendulum --outdir=comparison --axis=minutes
  agents compare logdir --outdir=comparison --metric=episode/return

Guide: docs/guides/training.md"""


class CompareOptions(BaseModel):
    """Compares runs over their seeds: learning curves with 95 % intervals, and a table.

    Runs with equal settings and different seeds form a group. Each environment has a panel.
    """

    model_config = ConfigDict(extra="forbid")

    runs: tuple[str, ...] = Field(
        title="RUN",
        min_length=1,
        description="Folder of a run, <logdir>/<time>-<config>. <logdir>/latest is the newest run. "
        "<logdir> stands for all runs in it.",
    )
    outdir: str = Field(
        min_length=1,
        description="Folder for comparison.png and comparison.csv. Existing files are replaced.",
    )
    axis: Axis = Field(
        "steps",
        description="Horizontal axis: environment steps, or minutes of training. Minutes leave out "
        "pauses, such as before a run was resumed.",
    )
    metric: str = Field(
        "eval/return_mean", min_length=1, description="Metric to compare, a tag in metrics.jsonl."
    )


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, _ = parse_command(
        CompareOptions, arguments, program="agents compare", examples=EXAMPLES
    )
    outdir = absolute_path(options.outdir)
    check_writable(outdir, "--outdir")
    folders = _find_runs(options.runs)
    say(f"Comparing {len(folders)} run{'s' if len(folders) > 1 else ''}", file=sys.stderr)
    runs = _read_runs(folders, options.metric)
    groups = compare_runs(runs, options.axis)
    _write(groups, options.metric, outdir)
    say(*table_lines(groups, options.metric))
    say(f"Wrote comparison.png and comparison.csv to {outdir}")


def _find_runs(paths: Sequence[str]) -> list[RunDirectory]:
    """Returns the runs that paths name, each once.

    Raises:
      UsageError: A path is neither a run nor a folder of runs.
    """
    runs = {}
    for path in map(resolve_run, paths):
        folders = [path] if (path / "config.yaml").is_file() else find_runs(path)
        if sweeps := find_runs(path, SWEEP_FILE):
            warnings.warn(
                f"trials of sweeps are left out; to compare those of one, give its folder {sweeps[-1]}",
                stacklevel=2,
            )
        if not folders:
            reason = "has no runs in it" if path.is_dir() else "is not a folder"
            raise UsageError(
                f"{path} {reason}; expected a run's folder such as logdir/<time>-<config>, "
                "or a logdir"
            )
        runs.update({folder.resolve(): RunDirectory(folder) for folder in folders})
    return list(runs.values())


def _read_runs(runs: Sequence[RunDirectory], metric: str) -> list[RunScores]:
    """Reads the scores of runs; runs without scores and unreadable runs are left out with a warning.

    Raises:
      UsageError: No run has any.
    """
    read = []
    for folder in runs:
        try:
            read.append(read_scores(folder, metric))
        except UsageError as error:  # Such as of another version.
            if len(runs) == 1:
                raise
            warnings.warn(f"{folder.path} is left out: {first_line(error)}", stacklevel=2)
    found = [scores for scores in read if scores.steps.size]
    if not found:
        tags = {tag for folder in runs for row in read_metrics(folder.metrics_file) for tag in row}
        if metric.startswith("eval/") and not any(tag.startswith("eval/") for tag in tags):
            raise UsageError("no run has an evaluation yet; train longer")
        known = sorted(tags - {"step", "wall_time"})
        if not known:
            raise UsageError("no run has metrics yet; train longer")
        hint = did_you_mean(metric, known, str) or f"; they have {', '.join(known)}"
        raise UsageError(f"--metric={metric}: no run has this metric{hint}")
    for scores in read:
        if not scores.steps.size:
            warnings.warn(f"{scores.name} has no {metric} yet and is left out", stacklevel=2)
    return found


def _write(groups: Sequence[Group], metric: str, outdir: Path) -> None:
    """Writes comparison.png and comparison.csv."""
    from agents.runs.curves import plot_comparison

    image = plot_comparison(groups, metric).image(dpi=120)
    try:
        outdir.mkdir(parents=True, exist_ok=True)
        write_atomically(outdir / "comparison.csv", csv_text(groups).encode())
        write_atomically(outdir / "comparison.png", image)
    except OSError as error:
        raise UsageError(f"--outdir={outdir}: {error.strerror}") from None


if __name__ == "__main__":
    run(main)
