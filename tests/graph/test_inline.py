import contextlib
import os

import gymnasium
import numpy as np
import pytest

from agents.errors import EnvironmentRaisedError, UnsupportedSpaceError
from agents.graph.backend import make_backend
from agents.settings.config_file import load_config


def make(num_envs, wrap, **settings):
    backend = make_backend(load_config(env="CartPole-v1", env_backend="inline", **settings))
    return contextlib.closing(backend.make(backend.check(), num_envs, wrap))


def test_environments_are_stepped_one_after_another_in_this_process():
    steps = []

    def record(index, env):
        def record_step(reward):
            steps.append((index, os.getpid()))
            return reward

        return gymnasium.wrappers.TransformReward(env, record_step)

    with make(3, record, num_processes=2) as envs:
        envs.reset()
        for _ in range(2):
            envs.step(np.zeros(3, int))
    assert steps == [(index, os.getpid()) for index in (0, 1, 2)] * 2


def test_environments_of_a_refused_batch_are_closed():
    closed = []

    class Buttons(gymnasium.Wrapper):
        action_space = gymnasium.spaces.Box(0, 5, (2,), np.int32)

        def close(self):
            closed.append(self)

    with pytest.raises(UnsupportedSpaceError, match="int32"):
        make(2, lambda index, env: Buttons(env))
    assert len(closed) == 2


def test_environments_before_a_failing_one_are_closed():
    closed = []

    class Closing(gymnasium.Wrapper):
        def close(self):
            closed.append(self)
            raise OSError("not the error that counts")

    def wrap(index, env):
        if index == 2:
            raise ZeroDivisionError
        return Closing(env)

    with pytest.raises(EnvironmentRaisedError, match="constructor raised ZeroDivisionError"):
        make(3, wrap)
    assert len(closed) == 2
