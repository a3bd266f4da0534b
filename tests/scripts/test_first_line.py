"""The first line of a command, which comes before slow imports; in a pipe as in a terminal."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import agents
from agents.settings.config_file import load_config, save_config
from tests.deployment.untrained import KINDS, save_run

ROOT = Path(agents.__file__).parents[1]
TRAIN = ["train", "--logdir=logs"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A current directory with a run, a module that needs TensorFlow, and one in its place."""
    path = tmp_path_factory.mktemp("commands")
    run = save_run(KINDS["gaussian"], path).path.rename(path / "run")
    save_config(load_config("pendulum"), run / "config.yaml")
    (path / "full").mkdir()
    (path / "full" / "file").touch()
    (path / "modules").mkdir()
    (path / "modules" / "tensorflow.py").write_text("raise SystemExit('imported')")
    (path / "modules" / "my_network.py").write_text("import tensorflow\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        ([*TRAIN, "--config=pendulum"], "Training in "),
        ([*TRAIN, "--dry-run"], "Starting TensorFlow"),
        ([*TRAIN, "--env-backend=tf"], "Starting TensorFlow"),
        ([*TRAIN, "--network=my_network:wide"], "Starting TensorFlow"),
        ([*TRAIN, "--config=pendulum", "--learners=2"], "Starting 2 learners"),
        (["visualize", "--logdir=run"], "Recording "),
        (["export", "--logdir=run", "--outdir=policy"], "Exporting the policy of "),
        (["check", "Pendulum-v1", "--random-steps=10"], "Checking Pendulum-v1 "),
        (["sweep", "--logdir=logs", "--config=pendulum"], "Sweep "),
        # Mistakes are the only lines.
        ([*TRAIN, "--network=no_network:wide"], "error: network "),
        (["export", "--logdir=run", "--outdir=full"], "error: --outdir="),
        (["visualize", "--logdir=run", "--checkpoint=best"], "error: "),
        (["check", "Pendulun-v1"], "error: unknown environment"),
    ],
    ids=" ".join,
)
def test_the_first_line_comes_before_tensorflow(folder, arguments, first):
    if "sweep" in arguments and importlib.util.find_spec("optuna") is None:
        pytest.skip("needs optuna")
    process = subprocess.run(
        [sys.executable, "-m", "agents", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "modules"), str(ROOT)])},
    )
    lines = process.stdout.splitlines()
    assert lines[0].startswith(first), process.stdout
    assert len(lines) == len(set(lines))
    if first.startswith("error: "):
        assert process.returncode == 2 and len(lines) <= 3
