"""Environments that functions make, in the backends that take them."""

import contextlib
import sys

import gymnasium
import numpy as np
import pytest

from agents.errors import UsageError
from agents.graph.backend import make_backend
from agents.runs.run_directory import RunDirectory
from agents.scripts.visualize import visualize
from agents.settings.config_file import load_config

MODULE = """
import gymnasium

def make_env(**kwargs):
    return gymnasium.make("Pendulum-v1", **kwargs)

class Shaped(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)
"""


def make(config):
    backend = make_backend(config)
    return contextlib.closing(backend.make(backend.check(), 1))


@pytest.mark.parametrize("backend", ["process", "inline"])
def test_a_function_and_what_it_closes_over(backend):
    gravity = 3.5

    def make_env(length=2.0):
        env = gymnasium.make("Pendulum-v1", g=gravity)
        env.unwrapped.l = length
        return env

    settings = {"env_kwargs": {"length": 1.5}, "max_episode_steps": 2}
    settings["num_processes"] = 0 if backend == "inline" else 1
    with make(load_config("default", env=make_env, env_backend=backend, **settings)) as envs:
        assert (*envs.get_attr("g"), *envs.get_attr("l")) == (3.5, 1.5)
        envs.reset(seed=0)
        action = np.zeros([1, 1], np.float32)
        ends = [bool(envs.step(action)[3][0]) for _ in range(3)]
        assert ends == [False, True, False]


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "makes_envs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "makes_envs"
    sys.modules.pop("makes_envs", None)


def test_a_function_by_its_name(module):
    with make(load_config("default", env=f"{module}:make_env", env_backend="inline")) as envs:
        assert envs[0].unwrapped.spec.id == "make_env"
        assert envs.single_observation_space.shape == (3,)
    with make(load_config("default", env=f"{module}:Shaped", env_backend="inline")) as envs:
        assert envs.single_action_space == gymnasium.spaces.Discrete(2)


def test_registered_environments_come_first(module, monkeypatch):
    entry_point = "gymnasium.envs.classic_control:CartPoleEnv"
    monkeypatch.setitem(
        gymnasium.registry,
        "Shaped-v2",
        gymnasium.envs.registration.EnvSpec("Shaped-v2", entry_point=entry_point),
    )
    with make(load_config("default", env=f"{module}:Shaped", env_backend="inline")) as envs:
        assert envs.single_observation_space.shape == (4,)


@pytest.mark.parametrize("backend", ["tf", "envpool"])
def test_backends_with_environments_of_their_own_refuse_functions(backend):
    config = load_config("default", env=lambda: None, env_backend=backend)
    with pytest.raises(
        UsageError, match="env: a function makes Gymnasium's environments"
    ) as raised:
        make_backend(config).check()
    assert "use env_backend process, hybrid or inline" in str(raised.value)


def test_a_function_that_files_only_name_has_to_be_passed_again(tmp_path):
    run = RunDirectory(tmp_path / "20260131T120000-mine")
    run.prepare(load_config("default", env=lambda: gymnasium.make("Pendulum-v1")))
    with pytest.raises(UsageError) as raised:
        make_backend(run.load_config()).check()
    assert str(raised.value).splitlines() == [
        "env '<lambda>' is a Python function, and files can't store it",
        "pass env=lambda to load_config or visualize again, or use a name such as my_module:make_env",
    ]
    spec = make_backend(run.load_config(env=lambda: gymnasium.make("Pendulum-v1"))).check()
    assert spec.id == "lambda"


def test_recording_takes_the_function_again(tmp_path):
    from agents.policies.policy import Policy
    from agents.runs.checkpoint import Checkpoints

    def make_env(**kwargs):
        return gymnasium.make("Pendulum-v1", max_episode_steps=3, **kwargs)

    run = RunDirectory(tmp_path / "20260131T120000-mine")
    config = load_config("default", env=make_env, layers=[4], eval_episodes=1)
    run.prepare(config)
    with make(config) as envs:
        policy = Policy(envs.single_observation_space, envs.single_action_space, config)
    Checkpoints(run.checkpoints, policy.variables()).save(1)
    with pytest.raises(UsageError, match="'<make_env>' is a Python function"):
        visualize(run, tmp_path / "videos")
    report = visualize(run, tmp_path / "videos", env=make_env)
    assert [episode["length"] for episode in report["episodes"]] == [3]
    assert (tmp_path / "videos" / "episode-00.mp4").is_file()
