"""Trainings of thirty updates in this process."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import numpy as np

from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.settings.config_file import load_config

UPDATE = 16  # Environment steps.
UPDATES = 30
SETTINGS = {
    "env": "CartPole-v1", "num_envs": 2, "rollout_length": 8, "minibatch_size": 8, "epochs": 1,
    "layers": (4,), "steps": UPDATES * UPDATE, "checkpoint_interval": 5 * UPDATE,
    "eval_interval": 2 * UPDATE, "eval_episodes": 1, "log_interval": 3 * UPDATE,
    "histogram_interval": 0, "num_processes": 1,
}  # fmt: skip


def make_config(backend, seed):
    return load_config("default", **SETTINGS, env_backend=backend, seed=seed)


@functools.cache
def never_stopped(backend, seed):
    """The run of a training that was never stopped, which must not be changed."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run = RunDirectory(folder / "run")
    assert len(list(train(make_config(backend, seed), run))) == UPDATES // 2
    return run


def values(run, step):
    """The arrays of a checkpoint by name."""
    with np.load(run.checkpoints / f"step-{step}.npz") as file:
        return {name: file[name] for name in file.files if not name.startswith("@run")}
