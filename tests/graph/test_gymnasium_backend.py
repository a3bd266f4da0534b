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
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.errors import (
    EnvironmentFailure,
    EnvironmentRaisedError,
    UnsupportedSpaceError,
    UsageError,
    WorkerDiedError,
    WorkerTimeoutError,
)
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config
from agents.vector.process_batch import available_cores, make_batch_env
from tests.faulty_toys import CommandedEnv
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
        return *self.env.step(action)[:4], {"action_mask": [0, 1]}
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


def run_episode(envs):
    """Length and return of the first environment's episode, and its last observation."""
    envs.reset()
    total, length, truncated = 0.0, 0, [False]
    while not truncated[0]:
        _, reward, _, truncated, infos = envs.step(np.zeros(envs.num_envs, int))
        total, length = total + float(reward[0]), length + 1
    return length, total, float(infos["final_obs"][0][0])


def test_unknown_environments_raise():
    for env, message in (
        ("Pendulm-v1", "unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
        ("no_module:MyEnv-v0", "needs the module 'no_module', which was not found"),
    ):
        with pytest.raises(UsageError) as raised:
            make_backend(load_config(env=env, env_backend="inline")).check()
        assert message in str(raised.value)
        assert len(str(raised.value).splitlines()) <= 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (7, 7.0, 7.0)),
        ({"max_episode_steps": 4}, (4, 4.0, 4.0)),
        ({"env_kwargs": {"start": 5}}, (7, 7.0, 12.0)),
        ({"action_repeat": 3, "max_episode_steps": 9}, (3, 9.0, 9.0)),
    ],
)
def test_settings(settings, expected):
    with make(env_backend="inline", **settings) as envs:
        assert envs.num_envs == 2
        assert run_episode(envs) == expected


def test_arguments_of_make_replace_those_of_the_settings():
    settings = {"env_backend": "inline", "env_kwargs": {"start": 5}}
    with make(make_kwargs={"env_kwargs": {"render_mode": "rgb_array"}}, **settings) as envs:
        assert run_episode(envs)[2] == 12 and envs.render_mode == "rgb_array"
    with make(make_kwargs={"env_kwargs": {"start": 2}}, **settings) as envs:
        assert run_episode(envs)[2] == 9


@every_backend
def test_a_last_wrapper_gets_the_index_of_its_environment(env_backend):
    def wrap(index, env):
        return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 10 * index)

    with make(3, make_kwargs={"wrap": wrap}, env_backend=env_backend, num_processes=2) as envs:
        envs.reset()
        np.testing.assert_array_equal(envs.step(np.zeros(3, int))[1], [1, 11, 21])


def test_info_keys_are_returned_in_every_step():
    with make(make_kwargs={"info_keys": ["steps"]}, env_backend="process") as envs:
        envs.reset()
        for step in range(1, 4):
            infos = envs.step(np.zeros(2, int))[-1]
            np.testing.assert_array_equal(infos["steps"], [step] * 2)


def test_wrappers_are_applied_in_order_and_some_for_training_only(my_wrappers):
    names = {
        "env_wrappers": ["my_wrappers:plus_one", "my_wrappers:doubled"],
        "train_wrappers": ["my_wrappers:Negated"],
    }
    settings = {"env": "CartPole-v1", "env_backend": "process", **names}
    for training, expected in ((True, -4.0), (False, 4.0)):
        with make(make_kwargs={"training": training}, **settings) as envs:
            envs.reset()
            np.testing.assert_array_equal(envs.step(np.zeros(2, int))[1], [expected] * 2)


@every_backend
def test_a_wrapper_that_returns_no_environment_raises(my_wrappers, env_backend):
    settings = {"env_backend": env_backend, "env_wrappers": ["my_wrappers:nothing"]}
    message = "'my_wrappers:nothing' must return an environment"
    with pytest.raises((UsageError, EnvironmentFailure), match=message):
        with make(env="CartPole-v1", **settings):
            pass


def test_action_masks_are_observed(my_wrappers):
    settings = {
        "env": "CartPole-v1",
        "env_backend": "process",
        "action_mask": True,
        "max_episode_steps": 5,
    }
    with make(env_wrappers=["my_wrappers:Masked"], **settings) as envs:
        observ, _ = envs.reset()
        np.testing.assert_array_equal(observ["action_mask"], [[1, 0]] * 2)
        assert observ["observ"].shape == (2, 4)
        for _ in range(5):
            observ, _, _, truncated, infos = envs.step(np.zeros(2, int))
        assert truncated.all()
        np.testing.assert_array_equal(observ["action_mask"], [[1, 0]] * 2)
        for final_obs in infos["final_obs"]:
            np.testing.assert_array_equal(final_obs["action_mask"], [0, 1])
    with pytest.raises((ValueError, EnvironmentFailure), match="must hold 'action_mask'"):
        with make(**settings) as envs:
            envs.reset()


@every_backend
@pytest.mark.parametrize(
    ("env_kwargs", "name"),
    [
        ({"action_space": spaces.Box(0, 5, (2,), np.int32)}, "int32"),
        ({"observation_space": spaces.Text(5)}, "Text"),
    ],
)
def test_spaces_without_a_policy_or_network_raise(env_backend, env_kwargs, name):
    with pytest.raises(UnsupportedSpaceError, match=name):
        with make(make_kwargs={"env_kwargs": env_kwargs}, env_backend=env_backend):
            pass


@every_backend
def test_an_unknown_argument_of_the_environment_raises(env_backend):
    with pytest.raises(UsageError, match="env_kwargs: the constructor of .* argument 'incline'"):
        with make(env_backend=env_backend, env_kwargs={"incline": 2}):
            pass


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


@pytest.mark.parametrize(("num_processes", "expected"), [(2, 2), (5, 3), (0, None)])
def test_environments_are_spread_over_processes(num_processes, expected):
    processes = processes_of(3, env_backend="process", num_processes=num_processes)
    assert len(set(processes)) == (expected or min(available_cores(), 3))
    assert os.getpid() not in processes


@pytest.mark.parametrize(
    ("num_processes", "expected"), [(1, [3]), (2, [1, 2]), (5, [1, 1, 1]), (0, None)]
)
def test_the_training_process_is_one_of_a_hybrid(num_processes, expected):
    processes = processes_of(3, env_backend="hybrid", num_processes=num_processes)
    counts = [processes.count(process) for process in dict.fromkeys(processes)]
    assert counts == expected or (expected is None and len(counts) == min(available_cores(), 3))
    assert processes.index(os.getpid()) == 3 - counts[-1]


def sleep_in_steps(index, env):
    def sleep(reward):
        time.sleep(20)

    return gymnasium.wrappers.TransformReward(env, sleep)


def sleep_before_it_is_made(index, env):
    time.sleep(20)


def act_on_buttons(index, env):
    buttons = gymnasium.spaces.Box(0, 5, (2,), np.int32)
    return gymnasium.wrappers.TransformAction(env, lambda action: 0, buttons)


def raise_in_constructor(index, env):
    if index == 2:
        raise ZeroDivisionError
    return env


@pytest.mark.timing
@pytest.mark.filterwarnings("ignore:Environment 0 .* has been in step for 1")
def test_a_step_that_takes_too_long_raises():
    settings = {"env_backend": "process", "step_timeout": 1.5}
    with make(1, make_kwargs={"wrap": sleep_in_steps}, **settings) as envs:
        envs.reset()
        start = time.monotonic()
        with pytest.raises(WorkerTimeoutError):
            envs.step(np.zeros(1, int))
        assert time.monotonic() - start < 18


@pytest.mark.parametrize(
    ("wrap", "settings", "error", "message"),
    [
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
def test_no_worker_is_left_of_a_refused_batch(wrap, settings, error, message):
    before = children()
    with pytest.raises(error, match=message):
        with make(3, make_kwargs={"wrap": wrap}, **{"env_backend": "process", **settings}):
            pass
    assert children() <= before


def test_steps_of_a_hybrid_equal_those_of_gymnasium():
    constructors = [lambda: gymnasium.make("CartPole-v1", max_episode_steps=7)] * 5
    oracle = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    with contextlib.closing(make_batch_env(constructors, 2, inline_share=True)) as batch:
        np.testing.assert_equal(batch.reset(seed=5), oracle.reset(seed=5))
        batch.action_space.seed(5)
        for _ in range(20):
            action = batch.action_space.sample()
            np.testing.assert_equal(batch.step(action)[:4], oracle.step(action)[:4])
    oracle.close()


def test_failures_of_a_hybrid_are_raised_in_the_order_of_rows():
    constructors = [lambda name=name: CommandedEnv(name) for name in "abcd"]
    with contextlib.closing(make_batch_env(constructors, 2, inline_share=True)) as batch:
        batch.reset()
        with pytest.raises(EnvironmentRaisedError, match="b failed") as caught:
            batch.step([0, CommandedEnv.RAISE, CommandedEnv.RAISE, 0])
        assert [other.env_index for other in caught.value.others] == [2]
        with pytest.raises(EnvironmentRaisedError, match="d failed"):
            batch.reset()
            batch.step([0, 0, 0, CommandedEnv.RAISE])
        batch.reset()
        assert batch.step([0, 0, 0, 0])[0][:, 1].tolist() == [1, 1, 1, 1]
        with pytest.raises(WorkerDiedError) as caught:
            batch.step([0, CommandedEnv.DIE, 0, 0])
        assert caught.value.env_index == 1


def test_environments_of_a_hybrid_restart():
    batch = make_batch_env([CommandedEnv] * 4, 2, restart_limit=5, inline_share=True)
    with contextlib.closing(batch):
        batch.reset(seed=0)
        with pytest.warns(UserWarning, match="restart number"):
            _, _, _, truncated, infos = batch.step([CommandedEnv.DIE, 0, 0, CommandedEnv.RAISE])
        # The worker died with both of its environments, the training process with none.
        assert infos["restarted"].tolist() == truncated.tolist() == [True, True, False, True]
        assert batch.step([0, 0, 0, 0])[0][:, 1].tolist() == [1, 1, 2, 1]


def test_inline_environments_are_stepped_one_after_another():
    steps = []

    def record(index, env):
        def record_step(reward):
            steps.append((index, os.getpid()))
            return reward

        return gymnasium.wrappers.TransformReward(env, record_step)

    settings = {"env_backend": "inline", "num_processes": 2}
    with make(3, make_kwargs={"wrap": record}, **settings) as envs:
        envs.reset()
        for _ in range(2):
            envs.step(np.zeros(3, int))
    assert steps == [(index, os.getpid()) for index in (0, 1, 2)] * 2


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
