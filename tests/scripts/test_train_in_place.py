"""A run stays where it was put, whatever happens to working directories and folders."""

import os
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.errors import RunLostError
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import main, train
from agents.settings.reports import run
from tests.scripts.runs import small

# Moves to another folder, which may be deleted at once, in the constructor, a reset or a step.
WANDERER = """
import os, pathlib, shutil, tempfile
import gymnasium
import numpy as np
from gymnasium import spaces


class Wanderer(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, event, deletes=False):
        self.event, self.deletes = event, deletes
        self.move("constructor")

    def move(self, event):
        if event == self.event:
            folder = tempfile.mkdtemp()
            pathlib.Path(folder).is_dir() and os.chdir(folder)
            if self.deletes:
                shutil.rmtree(folder)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.move("reset")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        self.move("step" if self.steps == 7 else "")
        return np.zeros(2, np.float32), 1.0, False, self.steps == 50, {}


gymnasium.register("Wanderer-v0", Wanderer)
"""
SHORT = {
    "num_envs": 2, "rollout_length": 50, "minibatch_size": 50, "steps": 300, "log_interval": 100,
    "checkpoint_interval": 100, "eval_interval": 100, "histogram_interval": 0, "eval_episodes": 1,
}  # fmt: skip


def wanderer(event, deletes=False):
    namespace = {}
    exec(WANDERER.rpartition("\n\n\n")[0], namespace)
    make = namespace["Wanderer"]  # Workers get the class, not the namespace with its builtins.
    return lambda: make(event, deletes)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory, with temporary folders of environments beside it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path / "here"
    os.chdir("/")  # It may be deleted by now.


def check_whole(run, steps=300):
    """Checks that a run has all in its folder."""
    assert read_metrics(run.metrics_file)[-1]["step"] == steps
    assert run.checkpoint("last").name == f"step-{steps}"
    assert run.checkpoint("best").parent == run.checkpoints / "best"
    assert len(list(run.train_events.iterdir())) == len(list(run.eval_events.iterdir())) == 1


@pytest.mark.parametrize(
    ("event", "env_backend", "deletes"),
    [("constructor", "inline", False), ("reset", "hybrid", True), ("step", "inline", True)],
)
def test_environments_that_change_the_working_directory_leave_runs_whole(
    here, event, env_backend, deletes
):
    config = small(
        "default", **{**SHORT, "env": wanderer(event, deletes), "env_backend": env_backend}
    )
    for _ in train(config, logdir="logs"):
        pass
    assert Path("/proc/self/cwd").readlink() != here
    [path] = (here / "logs").iterdir()
    check_whole(RunDirectory(path))
    assert [path.name for path in here.iterdir()] == ["logs"]
    assert not list((here.parent / "elsewhere").glob("*/*"))


def test_loops_over_scores_that_change_the_working_directory_leave_runs_whole(here):
    training = train(small("cartpole", **SHORT), run="run")
    os.chdir(here.parent / "elsewhere")
    for score in training:
        os.chdir(here.parent)
        assert score.run == here / "run"
    check_whole(RunDirectory(here / "run"))
    assert sorted(path.name for path in here.parent.iterdir()) == ["elsewhere", "here"]
    assert not list((here.parent / "elsewhere").iterdir())


class Reader(gymnasium.Env):
    """Reads a file and imports a module of the folder in which training started."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        import level  # type: ignore[import-not-found]

        assert level.NAME == Path("level.txt").read_text()
        self.restarted = Path("restarted").exists()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 20 and not self.restarted:
            Path("restarted").touch()
            os._exit(1)
        return np.zeros(2, np.float32), 1.0, False, self.steps == 50, {}


def test_workers_that_are_started_again_are_where_training_started(here, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    (here / "level.py").write_text("NAME = 'maze'")
    (here / "level.txt").write_text("maze")
    limit = {"limit": 2, "window": 600}
    settings = {**SHORT, "env": Reader, "env_backend": "process", "env_restarts": limit}
    training = train(small("default", **settings, num_processes=1), run="run")
    with pytest.warns(UserWarning, match="ended with exit code 1"):
        for _ in training:
            os.chdir("/")
    assert (here / "run" / "restarts.jsonl").exists()


@pytest.mark.parametrize("ends", ["goes on", "is left"])
def test_training_stops_where_its_folder_is_not_any_more(tmp_path, ends):
    path = tmp_path / "logs" / "run"
    config = small("cartpole", **{**SHORT, "env_backend": "tf", "checkpoint_interval": 10_000})
    training = train(config, run=path)
    next(training)
    path.rename(path.with_name("moved"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RunLostError, match="run was moved to .*/logs/moved, during training"):
        training.close() if ends == "is left" else next(training)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("learners", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_command_ends_with_a_code_where_its_folder_was_deleted(
    here, learners, monkeypatch, capfd
):
    module = WANDERER.replace("folder = tempfile.mkdtemp()", f"folder = '{here / 'logs'}'")
    (here.parent / "wanderer.py").write_text(
        module.replace("rmtree(folder)", "rmtree(folder, True)")
    )
    monkeypatch.syspath_prepend(here.parent)
    monkeypatch.setenv("PYTHONPATH", str(here.parent))  # Of other learners.
    settings = {**SHORT, "num_envs": 4, "env_backend": "inline", "epochs": 1, "layers": 4}
    arguments = ["--logdir=logs", "--config=default", f"--learners={learners}"]
    arguments += ["--env=wanderer:Wanderer-v0", '--env-kwargs={"event": "step", "deletes": true}']
    try:
        with pytest.raises(SystemExit) as exit:
            run(main, [*arguments, *[f"--{name}={value}" for name, value in settings.items()]])
    finally:
        gymnasium.registry.pop("Wanderer-v0", None)
        sys.modules.pop("wanderer", None)
    printed = capfd.readouterr().err
    assert exit.value.code == 1, printed
    assert "was deleted, during training" in printed and "Traceback" not in printed
    assert not (here / "logs").exists()
