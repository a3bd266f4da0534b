"""Training with an algorithm that is not part of the library: `examples/reinforce.py`."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import main
from tests.scripts.runs import assert_equal_runs, events, hashes, rewound

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = [
    "--config=cartpole", "--algorithm=reinforce:Reinforce", "--env-backend=tf",
    "--num-envs=4", "--rollout-length=50", "--minibatch-size=50", "--layers=8", "--steps=3200",
    "--checkpoint-interval=1600", "--log-interval=800", "--histogram-interval=1600",
    "--eval-interval=1600", "--eval-episodes=4",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that never stopped."""
    logdir = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        main([f"--logdir={logdir}", *SMALL])
        yield RunDirectory.of(next(logdir.iterdir()))
    sys.modules.pop("reinforce")


def test_metrics_checkpoints_and_events_are_written(run):
    logged = read_metrics(run.metrics_file)
    steps = {tag: [row["step"] for row in logged if tag in row] for tag in logged[0] | logged[-1]}
    assert steps["losses/policy"] == steps["perf/steps_per_second"] == [800, 1600, 2400, 3200]
    assert steps["eval/return_mean"] == steps["eval/length_mean"] == [1600, 3200]
    assert all(np.isfinite(list(row.values())).all() for row in logged)
    assert logged[-1]["eval/return_mean"] > 8  # No episode is shorter.
    fingerprints = hashes(run)
    assert fingerprints["step-1600.npz"] != fingerprints["step-3200.npz"]
    assert events(run.eval_events)["episode/return"] == [1600, 3200]
    train_events = events(run.train_events)
    assert train_events["losses/value"] == [800, 1600, 2400, 3200]
    assert train_events["rollout/advantage"] == [200, 1600, 3200]


def test_a_run_resumed_from_its_middle_equals_one_that_never_stopped(run, tmp_path):
    timestamp = run.timestamp
    stopped = rewound(run, tmp_path / f"{timestamp}-cartpole", 1600)
    assert "step-3200.npz" not in hashes(stopped)
    main([f"--logdir={tmp_path}", f"--timestamp={timestamp}"])
    assert hashes(stopped)["step-3200.npz"] == hashes(run)["step-3200.npz"]
    assert_equal_runs(stopped, run)


@pytest.mark.slow
def test_the_example_balances_the_pole(tmp_path):
    command = [sys.executable, "-m", "agents.scripts.train", f"--logdir={tmp_path}"]
    subprocess.run([*command, "--config=reinforce.yaml"], cwd=EXAMPLES, check=True)
    [path] = tmp_path.iterdir()
    scores = [
        row["eval/return_mean"]
        for row in read_metrics(RunDirectory(path).metrics_file)
        if "eval/return_mean" in row
    ]
    assert max(scores) >= 475
