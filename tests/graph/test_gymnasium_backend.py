"""Gymnasium's environments in this process, in workers, and in both."""

import contextlib
import os
import sys
import time
from pathlib import Path

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.errors import (
    EnvironmentRaisedError,
    UnsupportedSpaceError,
    UsageError,
    WorkerTimeoutError,
)
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config
from agents.vector.process_batch import available_cores
from tests.toys import CountingEnv

# Workers would import this module, and with it TensorFlow, which takes them seconds.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

MY_WRAPPERS = """
import gymnasium
from gymnasium.wrappers import TransformReward

def plus_one(env):
    return TransformReward(env, lambda reward: reward + 1)

def doubled(env):
    return TransformReward(env, lambda reward: reward * 2)

def nothing(env):
    pass

class Negated(gymnasium.Wrapper):
    def step(self, action):
        observ, reward, *rest = self.env.step(action)
        return observ, -reward, *rest

class Masked(gymnasium.Wrapper):
    def reset(self, **kwargs):
        return self.env.reset(**kwargs)[0], {"action_mask": [1, 0]}

    def step(self, action):
        *results, info = self.env.step(action)
        return *results, {**info, "action_mask": [0, 1]}
"""

every_backend = pytest.mark.parametrize("env_backend", ["inline", "process"])


def count_steps(steps):
    return {"steps": steps}


@pytest.fixture(scope="module", autouse=True)
def registered():
    kwargs = {"observation_space": spaces.Box(0, 1e6, (1,)), "info": count_steps}
    gymnasium.register("Counting-v0", CountingEnv, max_episode_steps=7, kwargs=kwargs)
    yield
    del gymnasium.registry["Counting-v0"]


@pytest.fixture
def my_wrappers(tmp_path, monkeypatch):
    """A module on the path of this process and of its workers."""
    (tmp_path / "my_wrappers.py").write_text(MY_WRAPPERS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_wrappers", None)


@contextlib.contextmanager
def make(num_envs=2, env="Counting-v0", make_kwargs=None, **settings):
    backend = make_backend(load_config("default", env=env, **settings))
    envs = backend.make(backend.check(), num_envs, **(make_kwargs or {}))
    with contextlib.closing(envs):
        yield envs


SETTINGS = {
    "env_kwargs": {"start": 5},
    "action_repeat": 3,
    "max_episode_steps": 9,
    "env_wrappers": ["my_wrappers:plus_one", "my_wrappers:doubled", "my_wrappers:Masked"],
    "train_wrappers": ["my_wrappers:Negated"],
    "action_mask": True,
}


def plus_ten(index, env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 10 * index)


@pytest.mark.parametrize(("env_backend", "training"), [("inline", False), ("process", True)])
def test_settings_and_arguments_reach_the_environments(my_wrappers, env_backend, training):
    kwargs = {"env_kwargs": {"render_mode": "rgb_array"}, "wrap": plus_ten, "training": training}
    settings = {**SETTINGS, "env_backend": env_backend, "info_keys": ["steps"]}
    with make(2, make_kwargs=kwargs, **settings) as envs:
        assert envs.render_mode == "rgb_array"
        observ, _ = envs.reset()
        np.testing.assert_array_equal(observ["action_mask"], [[1, 0]] * 2)
        np.testing.assert_array_equal(observ["observ"], [[5], [5]])
        reward_of_step = (-1 if training else 1) * (3 + 1) * 2
        for step in (1, 2, 3):
            observ, reward, _, truncated, infos = envs.step(np.zeros(2, int))
            np.testing.assert_array_equal(reward, [reward_of_step, reward_of_step + 10])
            np.testing.assert_array_equal(truncated, [step == 3] * 2)
            np.testing.assert_array_equal(infos["steps"], [3 * step] * 2)
            if step < 3:
                np.testing.assert_array_equal(observ["action_mask"], [[0, 1]] * 2)
        np.testing.assert_array_equal(observ["action_mask"], [[1, 0]] * 2)
        for final_obs in infos["final_obs"]:
            np.testing.assert_array_equal(final_obs["action_mask"], [0, 1])
            np.testing.assert_array_equal(final_obs["observ"], [14])
    settings = {"env_backend": env_backend, "env_kwargs": {"start": 5}}
    with make(1, make_kwargs={"env_kwargs": {"start": 2}}, **settings) as envs:
        assert envs.reset()[0] == 2


@every_backend
@pytest.mark.parametrize(
    ("settings", "env_kwargs", "error", "message"),
    [
        ({"env": "Pendulm-v1"}, {}, UsageError, "did you mean 'Pendulum-v1'"),
        ({"env_wrappers": ["my_wrappers:nothing"]}, {}, UsageError, "must return an environment"),
        (
            {"env_wrappers": ["my_wrappers:noting"]},
            {},
            UsageError,
            "env_wrappers 'my_wrappers:noting'",
        ),
        ({"env_kwargs": {"incline": 2}}, {}, UsageError, "constructor of .* argument 'incline'"),
        ({}, {"action_space": spaces.Box(0, 5, (2,), np.int32)}, UnsupportedSpaceError, "int32"),
        ({}, {"observation_space": spaces.Text(5)}, UnsupportedSpaceError, "Text"),
    ],
)
def test_mistakes_are_typed_on_any_host(
    my_wrappers, env_backend, settings, env_kwargs, error, message
):
    processes = {} if env_backend == "inline" else {"num_processes": 1}
    settings = {"env_backend": env_backend, **processes, **settings}
    with pytest.raises(error, match=message) as caught:
        with make(make_kwargs={"env_kwargs": env_kwargs}, **settings):
            pass
    assert len(str(caught.value).splitlines()) <= 3


# Processes.


def reward_process_id(index, env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: os.getpid())


def processes_of(num_envs, **settings):
    """Ids of the processes that environments are in."""
    with make(num_envs, make_kwargs={"wrap": reward_process_id}, **settings) as envs:
        envs.reset()
        return envs.step(np.zeros(num_envs, int))[1].astype(int).tolist()


def children():
    tasks = Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


def test_environments_are_spread_over_processes():
    processes = processes_of(3, env_backend="process", num_processes=2)
    assert len(set(processes)) == 2
    assert os.getpid() not in processes


@pytest.mark.parametrize(("num_processes", "expected"), [(1, [3]), (2, [1, 2]), (0, None)])
def test_the_training_process_is_one_of_a_hybrid(num_processes, expected):
    processes = processes_of(3, env_backend="hybrid", num_processes=num_processes)
    counts = [processes.count(process) for process in dict.fromkeys(processes)]
    assert counts == expected or (expected is None and len(counts) == min(available_cores(), 3))
    assert processes.index(os.getpid()) == 3 - counts[-1]


def sleep_in_resets(index, env):
    env.reset = lambda **kwargs: time.sleep(20)
    return env


def sleep_before_it_is_made(index, env):
    time.sleep(20)


def act_on_buttons(index, env):
    buttons = gymnasium.spaces.Box(0, 5, (2,), np.int32)
    return gymnasium.wrappers.TransformAction(env, lambda action: 0, buttons)


def raise_in_constructor(index, env):
    if index == 2:
        raise ZeroDivisionError
    return env


@pytest.mark.parametrize(
    ("wrap", "settings", "error", "message"),
    [
        (sleep_in_resets, {"step_timeout": 0.5}, WorkerTimeoutError, "within 0.5 seconds"),
        (sleep_before_it_is_made, {"start_timeout": 0.5}, WorkerTimeoutError, "within 0.5 seconds"),
        (act_on_buttons, {}, UnsupportedSpaceError, "int32"),
        (
            raise_in_constructor,
            {"env_backend": "hybrid", "num_processes": 3},
            EnvironmentRaisedError,
            "constructor raised ZeroDivisionError.*environment 2",
        ),
    ],
)
def test_no_worker_is_left_of_a_batch_that_fails(wrap, settings, error, message):
    before = children()
    with pytest.raises(error, match=message):
        with make(3, make_kwargs={"wrap": wrap}, **{"env_backend": "process", **settings}) as envs:
            envs.reset()
    assert children() <= before


@pytest.mark.parametrize("wrap", [act_on_buttons, raise_in_constructor])
def test_inline_environments_of_a_refused_batch_are_closed(wrap):
    closed = []

    class Closing(gymnasium.Wrapper):
        def close(self):
            closed.append(self)
            raise OSError("not the error that counts")

    with pytest.raises((UnsupportedSpaceError, EnvironmentRaisedError)):
        kwargs = {"wrap": lambda index, env: wrap(index, Closing(env))}
        with make(3, make_kwargs=kwargs, env_backend="inline"):
            pass
    assert len(closed) == (3 if wrap is act_on_buttons else 2)
