import copy
import itertools
from pathlib import Path

import numpy as np
import pytest

import agents
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.settings.config_file import load_config
from agents.training.evaluation import EvaluationScore

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SMALL = {
    "env_backend": "inline", "num_envs": 2, "rollout_length": 16, "minibatch_size": 32,
    "epochs": 1, "layers": [4], "eval_episodes": 2, "eval_interval": 32, "steps": 96,
    "max_episode_steps": 10, "log_interval": 32, "checkpoint_interval": 32,
}  # fmt: skip


def test_a_score_is_a_number():
    scalars = {"eval/return_mean": 1.5, "eval/return_std": 0.5}
    score = EvaluationScore(scalars, 32, True, Path("run"), lambda: "policy")
    assert score == 1.5 and score + 1 == 2.5 and f"{score:.1f}" == "1.5" and max(score, 1) is score
    assert np.mean([score, score]) == 1.5 and isinstance(score, float)
    assert (score.step, score.is_best, score.run) == (32, True, Path("run"))
    assert score.scalars == scalars and score.policy == "policy"
    assert copy.copy(float(score)) == 1.5


def test_training_yields_scores_with_step_policy_and_run(tmp_path):
    config = load_config("cartpole", **SMALL)
    scores, actions = [], []
    for score in train(config, logdir=tmp_path):
        scores.append(score)
        actions.append(score.policy(np.zeros(4)))
        assert score.policy is scores[0].policy  # Its graphs are not built again.
        rows = [
            row for row in read_metrics(score.run / "metrics.jsonl") if row["step"] == score.step
        ]
        assert rows[-1]["eval/return_mean"] == score
    assert [score.step for score in scores] == [32, 64, 96]
    best = list(itertools.accumulate(scores, max))
    assert [score.is_best for score in scores] == [
        True,
        *(a < b for a, b in itertools.pairwise(best)),
    ]
    assert set(actions) <= {0, 1}
    [folder] = tmp_path.iterdir()
    assert {score.run for score in scores} == {folder} and folder.name.endswith("-CartPole-v1")
    assert agents.load_policy(folder)(np.zeros(4)) == actions[-1]
    assert RunDirectory.existing(tmp_path, folder.name.partition("-")[0]).path == folder


def test_early_stopping_takes_three_lines(tmp_path):
    for score in train(load_config("cartpole", **SMALL), logdir=tmp_path):
        if score > 0:
            break
    assert score.step == 32 and RunDirectory(score.run).checkpoint("best").name == "step-32"


def test_a_run_and_a_logdir_exclude_each_other(tmp_path):
    with pytest.raises(ValueError, match="not both"):
        next(train(load_config("cartpole", **SMALL), RunDirectory(tmp_path / "run"), tmp_path))
    assert not list(tmp_path.iterdir())
