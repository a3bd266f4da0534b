import json

from agents.deployment.scores import logged_scores
from agents.storage.run_directory import RunDirectory


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
