"""Logged evaluation scores of a run."""

from __future__ import annotations

from agents.runs.checkpoint_files import AVERAGED, find_files
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.runs.score_text import info_texts, score_text
from agents.types import PlainData

TAGS = ("eval/return_mean", "eval/return_std", "eval/length_mean")


def logged_scores(run: RunDirectory, step: int, checkpoint: str = "") -> dict[str, float] | None:
    """Returns the scores of the run's evaluation at an environment step, without the "eval/".

    None if there was no evaluation; those of the averaged weights for the checkpoint of that name.
    """
    row = _evaluation(run, step)
    prefix = f"eval/{AVERAGED}_" if checkpoint == AVERAGED else "eval/"
    names = [tag.removeprefix("eval/") for tag in TAGS]
    return {name: row[prefix + name] for name in names} if row else None


def logged_episodes(run: RunDirectory, step: int) -> int:
    """Returns the number of episodes of that evaluation; by default the run's setting.

    A run that was resumed may have had others before.
    """
    row = _evaluation(run, step)
    return int(row["eval/episodes"]) if "eval/episodes" in row else run.load_config().eval_episodes


def in_words(report: dict[str, PlainData]) -> str:
    """Returns the scores of a report of `visualize`, compared with the run's own evaluation."""
    spread = score_text(report["return_mean"], report["return_std"])
    scores = ", ".join([spread, *info_texts(report, "info/")])
    logged, number = report["logged"], report["logged_episodes"]
    evaluated = score_text(logged["return_mean"], logged["return_std"]) if logged else ""
    if not logged:
        verdict = "new episodes: the run has no evaluation of them at this step"
    elif number != len(report["episodes"]):
        verdict = f"the run's evaluation of {number} episodes at this step gave {evaluated}"
    elif all(report[name] == value for name, value in logged.items()):
        verdict = "equal to the run's evaluation at this step"
    else:
        verdict = f"the run's evaluation at this step gave {evaluated}"
    return f"Return at step {report['checkpoint_step']:,}: {scores}; {verdict}"


def outcome(run: RunDirectory, score: float | None = None) -> str:
    """Returns the scores that a training ended with, and the best checkpoint if that is an earlier one.

    Args:
      run: The run.
      score: Of its last evaluation; by default the logged one.
    """
    rows = read_metrics(run.metrics_file)
    evaluations = [row for row in rows if "eval/return_mean" in row]
    returns = [row["episode/return"] for row in rows if "episode/return" in row]
    if score is None and not evaluations:
        return "There was no evaluation"
    last = evaluations[-1]["eval/return_mean"] if score is None else score
    text = f"The last evaluation gave {score_text(last)}"
    if returns:
        text += f", training episodes {score_text(returns[-1])}"
    step = max((file.step for file in find_files(run.checkpoints) if file.is_best), default=0)
    best = logged_scores(run, step)
    # Of equal scores, the first is the best.
    if best and best["return_mean"] >= last and step < evaluations[-1]["step"]:
        text += f"; best: {score_text(best['return_mean'])} at step {step:,} (--checkpoint=best)"
    return text


def _evaluation(run: RunDirectory, step: int) -> dict[str, float]:
    """Returns the last row with an evaluation at a step; empty if there is none."""
    evaluations = [
        row
        for row in read_metrics(run.metrics_file)
        if row["step"] == step and row.keys() >= set(TAGS)
    ]
    return evaluations[-1] if evaluations else {}
