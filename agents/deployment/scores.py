"""What a run's own evaluations reached."""

from __future__ import annotations

from agents.storage.metrics import read_metrics
from agents.storage.run_directory import RunDirectory

TAGS = ("eval/return_mean", "eval/return_std", "eval/length_mean")


def logged_scores(run: RunDirectory, step: int) -> dict[str, float] | None:
    """Returns the scores of the run's evaluation at an environment step, without the "eval/".

    None if there was no evaluation.
    """
    evaluations = [
        row
        for row in read_metrics(run.metrics_file)
        if row["step"] == step and row.keys() >= set(TAGS)
    ]
    if not evaluations:
        return None
    return {tag.removeprefix("eval/"): evaluations[-1][tag] for tag in TAGS}
