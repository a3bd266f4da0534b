"""Command lines that can't work: exit code, number of lines, and a word of the message."""

import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import agents
from agents.scripts import train
from agents.settings import reports

ROOT = Path(agents.__file__).parents[1]
MODULE = '''
import gymnasium
import numpy as np
from gymnasium import spaces

class Line(gymnasium.Env):
    """Observes a number; the action is not bounded."""
    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, slope=0.0):
        self.slope = slope

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, True, {}

class Needs(Line):
    def __init__(self, slope):
        super().__init__(slope)

class Prose(Line):
    observation_space = spaces.Text(5)

class Buttons(Line):
    action_space = spaces.Box(0, 5, (2,), int)

gymnasium.register("Line-v0", Line)
gymnasium.register("Needs-v0", Needs)
gymnasium.register("Prose-v0", Prose)
gymnasium.register("Buttons-v0", Buttons)
gymnasium.register("Graph-v0", lambda: 1 / 0)

def returns_a_number(env):
    return 3

def raises(*arguments):
    raise KeyError("broken")

def takes_nothing():
    pass

def returns_text(inputs, config):
    return "features"

def returns_matrices(inputs, config):
    import keras
    return keras.layers.Reshape((1, 1))(inputs["vector"])

class Algorithm:
    def __init__(self, batch_env, config):
        pass
'''
SMALL = ["--env-backend=inline", "--num-envs=1", "--eval-episodes=1", "--layers=4"]
LINE = ["--config=default", "--env=bad_module:Line-v0", *SMALL]

# Known before TensorFlow is loaded. tests/settings has the values of settings.
EARLY = [
    (["--config=pendulun"], "did you mean 'pendulum'"),
    (["--timestamp="], "--timestamp"),
    (["--timestamp=20260131T120000"], "no such run"),
    (["--env="], "env: expected a text, got an empty one"),
    ([f"--env={'x' * 501}"], "env: expected at most 500 characters"),
    (["--layers=" + "[" * 5000], "layers: expected a list"),
    # Python 3.12 and later read deeper JSON than earlier ones.
    *((["--env-kwargs=" + '{"a": ' * depth + "1" + "}" * depth], "nested too deeply")
      for depth in (100, 3000)),
    (["--env=Pendulun-v1"], "Pendulum-v1"),
    (["--env=no_module:My-v0"], "no_module"),
    (["--env=bad_module:Absent-v0"], "Absent-v0"),
    (["--env=exits:My-v0"], "SystemExit"),
    (["--env=bad_module:Prose-v0"], "Text"),
    (["--env=bad_module:Prose-v0", "--env-backend=tf"], "agents.tensor_envs.register"),
    (["--env=bad_module:Buttons-v0"], "int64"),
    (["--env=bad_module:Needs-v0", *SMALL], "slope"),
    (["--env-kwargs={\"gravity\": 1}", "--config=pendulum", *SMALL], "gravity"),
    ([*LINE, "--env-kwargs={\"incline\": 1}"], "incline"),
    (["--learning-rat=1"], "--learning-rate"),
    (["--env-kwargs={\"g\": 1, \"g\": 2}"], "--env-kwargs: found duplicate key \"g\""),
    (["--env-kwargs={m: {g: 1, g: 2}}"], "--env-kwargs: found duplicate key \"g\""),
    (["--restarts=3"], "expected --learners, --cluster, TF_CONFIG or srun"),
    (["--learner-cpus=2"], "--cluster=ray"),
    ([*LINE, "--env-wrappers=bad_module:absent"], "absent"),
    ([*LINE, "--env-wrappers=bad_module:returns_a_number"], "env_wrappers"),
    ([*LINE, "--env-wrappers=bad_module:raises"], "env_wrappers"),
    ([*LINE, "--env-wrappers=bad_module:takes_nothing"], "takes 0"),
    ([*LINE, "--train-wrappers=bad_module:returns_a_number"], "train_wrappers"),
    ([*LINE, "--train-wrappers=bad_module:raises"], "train_wrappers"),
    ([*LINE, "--env-wrappers=gymnasium.wrappers:Autoreset"], "Environment 0 has Autoreset"),
    ([*LINE, "--algorithm=bad_module:Absent"], "Absent"),
    (["--env-backend=tf", "--env=Hopper-v5"], "CartPole-v1"),
    (["--env-backend=tf", "--info-keys=speed"], "info_keys"),
    (["--env-backend=envpool", "--env=Pendulun-v1"], "envpool"),
    (["--logdir=file.yaml/logs"], "not a folder"),
    (["--env=highway-v0"], "my_module:highway-v0"),
    (["--config=CartPole-v1"], "an environment is the setting env, as in --env=CartPole-v1"),
    (["--timestamp=latest"], "no such run"),
    (["--logdir=latest"], "--timestamp=latest"),
    ([*LINE, "--policy=beta"], "finite bounds"),
    (["--env=CartPole-v1", "--policy=beta", *SMALL], "Discrete(2)"),
    (["--env=CartPole-v1", "--policy=bad_module:raises", *SMALL], "Discrete(2)"),
]  # fmt: skip
# TensorFlow must be loaded to know.
LATE = [
    ([*LINE, "--algorithm=bad_module:Algorithm"], "agents.Algorithm"),
    ([*LINE, "--algorithm=bad_module:raises"], "broken"),
    ([*LINE, "--network=bad_module:raises"], "broken"),
    ([*LINE, "--network=bad_module:takes_nothing"], "takes 0"),
    ([*LINE, "--network=bad_module:returns_text"], "str"),
    ([*LINE, "--network=bad_module:returns_matrices"], "[N, F]"),
    ([*LINE, "--network=nature"], "images"),
    (["--env=CartPole-v1", "--noise-correlation=0.5", *SMALL], "noise_correlation"),
    (["--env-backend=tf", "--env-kwargs={\"incline\": 1}"], "incline"),
    ([f"--custom-settings={{a: {'x' * 100_000}}}"], "more than the 100,000 of a file"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current directory with modules."""
    (tmp_path / "bad_module.py").write_text(MODULE)
    (tmp_path / "exits.py").write_text("raise SystemExit(0)")
    (tmp_path / "file.yaml").write_text("- 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bad_module", raising=False)
    return tmp_path


def check(folder, code, printed, word):
    lines = [line for line in printed.splitlines() if not line.startswith("Training in")]
    assert code == 2, printed
    assert lines[0].startswith("error: ") and len(lines) <= 3 and word in printed
    assert not (folder / "logs").exists() or list((folder / "logs").iterdir()) == []


def name_case(value):
    return " ".join(value)[-60:].replace("/", "-") if isinstance(value, list) else None


@pytest.mark.parametrize(("arguments", "word"), EARLY + LATE, ids=name_case)
def test_train_refuses_and_leaves_no_run_behind(folder, capsys, monkeypatch, arguments, word):
    if (arguments, word) in EARLY:
        monkeypatch.setitem(sys.modules, "tensorflow", None)  # Importing it fails.
    with pytest.raises(SystemExit) as exit, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pytest would raise them.
        reports.run(train.main, ["--logdir=logs", *arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    check(folder, exit.value.code, captured.err, word)


@pytest.mark.parametrize(
    ("arguments", "word", "seconds"),
    [
        (["--config=pendulun"], "did you mean", 3),
        ([*LINE, "--train-wrappers=bad_module:raises", "--env-backend=process"], "train_wrapp", 8),
    ],
    ids=["option", "wrapper in a worker"],
)
def test_processes_end_quickly_with_a_short_message(folder, arguments, word, seconds):
    """In seconds of processors, the bounds are three times what an idle machine needs."""
    command = [sys.executable, "-m", "agents.scripts.train", "--logdir=logs", *arguments]
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime < seconds
    check(folder, process.returncode, process.stderr, word)
