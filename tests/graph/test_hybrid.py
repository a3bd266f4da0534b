import contextlib
import os
import sys
from pathlib import Path

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.errors import EnvironmentRaisedError, WorkerDiedError
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config
from agents.vector.process_batch import available_cores, make_batch_env
from tests.faulty_toys import CommandedEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def reward_process_id(index, env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: os.getpid())


def raise_in_constructor(index, env):
    if index == 2:
        raise ZeroDivisionError
    return env


def make(num_envs, wrap, **settings):
    backend = make_backend(load_config(env="CartPole-v1", env_backend="hybrid", **settings))
    return contextlib.closing(backend.make(backend.check(), num_envs, wrap))


def children():
    tasks = Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


@pytest.mark.parametrize(
    ("num_processes", "expected"), [(1, [3]), (2, [1, 2]), (5, [1, 1, 1]), (0, None)]
)
def test_the_training_process_is_one_of_the_processes(num_processes, expected):
    with make(3, reward_process_id, num_processes=num_processes) as envs:
        envs.reset()
        processes = envs.step(np.zeros(3, int))[1].astype(int).tolist()
    counts = [processes.count(process) for process in dict.fromkeys(processes)]
    assert counts == expected or (expected is None and len(counts) == min(available_cores(), 3))
    assert processes.index(os.getpid()) == 3 - counts[-1]


def test_steps_equal_those_of_gymnasium():
    constructors = [lambda: gymnasium.make("CartPole-v1", max_episode_steps=7)] * 5
    oracle = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    with contextlib.closing(make_batch_env(constructors, 2, inline_share=True)) as batch:
        np.testing.assert_equal(batch.reset(seed=5), oracle.reset(seed=5))
        batch.action_space.seed(5)
        for _ in range(20):
            action = batch.action_space.sample()
            np.testing.assert_equal(batch.step(action)[:4], oracle.step(action)[:4])
    oracle.close()


def test_failures_of_both_kinds_of_processes_are_raised_in_the_order_of_rows():
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


def test_environments_of_both_kinds_of_processes_restart():
    batch = make_batch_env([CommandedEnv] * 4, 2, restart_limit=5, inline_share=True)
    with contextlib.closing(batch):
        batch.reset(seed=0)
        with pytest.warns(UserWarning, match="restart number"):
            _, _, _, truncated, infos = batch.step([CommandedEnv.DIE, 0, 0, CommandedEnv.RAISE])
        # The worker died with both of its environments, the training process with none.
        assert infos["restarted"].tolist() == truncated.tolist() == [True, True, False, True]
        assert batch.step([0, 0, 0, 0])[0][:, 1].tolist() == [1, 1, 2, 1]


def test_after_a_failing_constructor_here_no_worker_is_left():
    before = children()
    with pytest.raises(
        EnvironmentRaisedError, match="constructor raised ZeroDivisionError"
    ) as caught:
        make(3, raise_in_constructor, num_processes=3)
    assert caught.value.env_index == 2
    assert children() <= before
