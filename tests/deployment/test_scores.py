import json

import numpy as np
import pytest

from agents.deployment.scores import in_words, logged_scores, outcome
from agents.runs.checkpoint_files import write
from agents.runs.run_directory import RunDirectory


def test_the_last_complete_evaluation_at_a_step_counts(tmp_path):
    run = RunDirectory(tmp_path)
    assert logged_scores(run, 1) is None
    scores = {"eval/return_mean": 1.0, "eval/return_std": 2.0, "eval/length_mean": 3.0}
    rows = [
        {"step": 1, **scores},
        {"step": 2, **scores, "eval/return_mean": 4.0},
        {"step": 1, **scores, "eval/return_mean": 5.0},
        {"step": 1, "eval/return_mean": 6.0},
        {"step": 3, "train/return_mean": 7.0},
    ]
    lines = [json.dumps({"time": 0, **row}) for row in rows]
    run.metrics_file.write_text("\n".join(lines) + "\n")
    assert logged_scores(run, 1) == {"return_mean": 5.0, "return_std": 2.0, "length_mean": 3.0}
    assert logged_scores(run, 2)["return_mean"] == 4.0
    assert logged_scores(run, 3) is None


@pytest.mark.parametrize(
    ("scores", "returns", "best", "expected"),
    [
        ([], [], None, "There was no evaluation"),
        ([], [3.0], None, "There was no evaluation"),
        ([96.2], [], 1000, "The last evaluation gave 96.2"),
        ([1.0, 96.25], [5.0, 103.4], 2000, "The last evaluation gave 96.2, training episodes 103.4"),
        (
            [473.6, 96.2],
            [90.0],
            1000,
            "The last evaluation gave 96.2, training episodes 90.0; best: 473.6 at step 1,000 (--checkpoint=best)",
        ),
        ([-100.0, -160.0], [], 1000, "The last evaluation gave -160.0; best: -100.0 at step 1,000 (--checkpoint=best)"),
        ([96.2, 96.2], [], 1000, "The last evaluation gave 96.2; best: 96.2 at step 1,000 (--checkpoint=best)"),
        ([96.2, 473.6], [], 1000, "The last evaluation gave 473.6"),  # Its checkpoint was not saved.
        ([473.6, 96.2], [], None, "The last evaluation gave 96.2"),  # The checkpoint is missing.
    ],
)  # fmt: skip
def test_the_outcome_of_a_training(scores, returns, best, expected, tmp_path):
    run = RunDirectory(tmp_path)
    rows = [{"step": 500, "episode/return": one} for one in returns]
    for index, score in enumerate(scores):
        evaluation = {"eval/return_mean": score, "eval/return_std": 1.0, "eval/length_mean": 2.0}
        rows.append({"step": 1000 * (index + 1), **evaluation})
    run.metrics_file.write_text("".join(json.dumps({"wall_time": 0, **row}) + "\n" for row in rows))
    if best:
        write(run.checkpoints, best, {"a": np.zeros(3)}, best=True)
    assert outcome(run) == expected
    if not scores:
        assert outcome(run, 7.0).startswith("The last evaluation gave 7.0")


@pytest.mark.parametrize(
    ("logged", "num_logged", "verdict"),
    [
        (None, 2, "new episodes: the run has no evaluation of them at this step"),
        ({"return_mean": 50.0, "return_std": 2.0}, 2, "equal to the run's evaluation at this step"),
        ({"return_mean": 51.0, "return_std": 2.0}, 2, "the run's evaluation at this step gave 51.0 +- 2.0"),
        (
            {"return_mean": 90.0, "return_std": 9.0},
            20,
            "the run's evaluation of 20 episodes at this step gave 90.0 +- 9.0",
        ),
    ],
)  # fmt: skip
def test_a_report_in_words(logged, num_logged, verdict):
    report = {"checkpoint_step": 3000, "return_mean": 50.0, "return_std": 2.0, "info/success": 0.5}
    report |= {"episodes": [{}, {}], "logged": logged, "logged_episodes": num_logged}
    assert in_words(report) == f"Return at step 3,000: 50.0 +- 2.0, success 0.500; {verdict}"
