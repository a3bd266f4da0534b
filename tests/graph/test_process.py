import contextlib
import os
import sys
import time
from pathlib import Path

import cloudpickle
import gymnasium
import numpy as np
import pytest

from agents.errors import UnsupportedSpaceError, WorkerTimeoutError
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config
from agents.vector.process_batch import available_cores

# Workers would import this module, and with it TensorFlow, which takes them seconds.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def reward_process_id(index, env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: os.getpid())


def sleep_in_steps(index, env):
    def sleep(reward):
        time.sleep(20)

    return gymnasium.wrappers.TransformReward(env, sleep)


def act_on_buttons(index, env):
    buttons = gymnasium.spaces.Box(0, 5, (2,), np.int32)
    return gymnasium.wrappers.TransformAction(env, lambda action: 0, buttons)


@contextlib.contextmanager
def make(num_envs, wrap=None, **settings):
    backend = make_backend(load_config(env="CartPole-v1", env_backend="process", **settings))
    with contextlib.closing(backend.make(backend.check(), num_envs, wrap)) as envs:
        envs.reset()
        yield envs


def children():
    tasks = Path("/proc/self/task").iterdir()
    return sorted(child for task in tasks for child in (task / "children").read_text().split())


@pytest.mark.parametrize(("num_processes", "expected"), [(2, 2), (5, 3), (0, None)])
def test_environments_are_spread_over_processes(num_processes, expected):
    expected = expected or min(available_cores(), 3)
    with make(3, reward_process_id, num_processes=num_processes) as envs:
        processes = envs.step(np.zeros(3, int))[1].astype(int).tolist()
    assert len(set(processes)) == expected
    assert os.getpid() not in processes


@pytest.mark.timing
@pytest.mark.filterwarnings("ignore:Environment 0 .* has been in step for 1")
def test_a_step_that_takes_too_long_raises():
    with make(1, sleep_in_steps, step_timeout=1.5) as envs:
        start = time.monotonic()
        with pytest.raises(WorkerTimeoutError):
            envs.step(np.zeros(1, int))
        assert time.monotonic() - start < 18


def sleep_before_it_is_made(index, env):
    time.sleep(20)


def test_environments_that_take_too_long_to_construct_raise():
    before = children()
    with pytest.raises(WorkerTimeoutError, match="within 0.5 seconds"):
        with make(2, sleep_before_it_is_made, start_timeout=0.5):
            pass
    assert children() == before


def test_workers_of_a_refused_batch_end():
    before = children()
    with pytest.raises(UnsupportedSpaceError, match="int32"):
        with make(2, act_on_buttons):
            pass
    assert children() == before
