"""What a run's own evaluations reached."""

from __future__ import annotations

from agents.storage.metrics_file import read_metrics
from agents.storage.run_directory import RunDirectory

TAGS = ("eval/return_mean", "eval/return_std", "eval/length_mean")


def logged_scores(run: RunDirectory, step: int) -> dict[str, float] | None:
    """Returns the scores of the run's evaluation at an environment step, without the "eval/".

    None if there was no evaluation.
    """
    row = _evaluation(run, step)
    return {tag.removeprefix("eval/"): row[tag] for tag in TAGS} if row else None


def logged_episodes(run: RunDirectory, step: int) -> int:
    """Returns the number of episodes of that evaluation; by default the run's setting.

    A run that was resumed may have had others before.
    """
    row = _evaluation(run, step)
    return int(row["eval/episodes"]) if "eval/episodes" in row else run.load_config().eval_episodes


def _evaluation(run: RunDirectory, step: int) -> dict[str, float]:
    """Returns the last row with an evaluation at a step; empty if there is none."""
    evaluations = [
        row
        for row in read_metrics(run.metrics_file)
        if row["step"] == step and row.keys() >= set(TAGS)
    ]
    return evaluations[-1] if evaluations else {}
