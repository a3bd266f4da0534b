import contextlib
import functools
import importlib.util

import numpy as np
import pytest

from agents.environments.registration import find_spec, make_env
from agents.errors import UsageError
from agents.vector.process_batch import make_batch_env

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("dm_control") and importlib.util.find_spec("shimmy")),
    reason="needs the extra dm-control",
)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            "dm_control/cheetah/rum",
            "unknown environment 'dm_control/cheetah/rum'; did you mean 'dm_control/cheetah/run'?",
        ),
        ("dm_control/base/run", "unknown environment 'dm_control/base/run'"),
        (
            "dm_control/cheetah",
            "unknown environment 'dm_control/cheetah'; did you mean 'dm_control/cheetah/run'?",
        ),
    ],
)
def test_unknown_tasks_raise(env, message):
    with pytest.raises(UsageError) as raised:
        find_spec(env)
    assert str(raised.value).startswith(message)


def make(env, num_envs, **env_kwargs):
    """Environments in a worker process: OSMesa, which dm_control imports, may crash TensorFlow."""
    constructor = functools.partial(make_env, find_spec(env), env_kwargs)
    return contextlib.closing(make_batch_env([constructor] * num_envs, 1))


def test_time_limits_truncate():
    kwargs = {"task_kwargs": {"time_limit": 0.075}}
    with make("dm_control/humanoid/run", 2, **kwargs) as envs:
        assert envs.single_observation_space["head_height"].shape == ()
        assert envs.metadata["render_fps"] == 40
        envs.reset()
        flags = [envs.step(envs.action_space.sample())[2:4] for _ in range(4)]
        assert [terminated.any() for terminated, _ in flags] == [False] * 4
        assert [truncated.all() for _, truncated in flags] == [False, False, True, False], (
            "steps of 0.025 seconds"
        )


def test_bodies_sampled_when_a_task_is_made_are_equal():
    """In environments that were made separately: `reset` does not sample them."""
    with make("dm_control/lqr/lqr_2_1", 2) as envs:
        envs.single_action_space.seed(5)
        observ, _ = envs.reset(seed=[3, 3])
        for _ in range(40):
            for name, leaf in observ.items():  # [B, ...]
                np.testing.assert_array_equal(leaf[0], leaf[1], name)
            action = envs.single_action_space.sample()
            observ, reward, *_ = envs.step(np.stack([action] * 2))
            assert reward[0] == reward[1]
