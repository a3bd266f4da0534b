"""Every family as people use it: by its id, in worker processes. What is not installed is skipped."""

import contextlib
import importlib.util

import numpy as np
import pytest

from agents.config import load_config, preset_names
from agents.families import check_environment
from agents.runs.environments import make_environments
from agents.tools.spaces import flatten, leaf_spaces

PACKAGES = {
    "half_cheetah_bullet": ["pybullet", "pybullet_envs_gymnasium"],
    "bipedal_walker": ["Box2D"],
    "dm_cartpole_swingup": ["dm_control", "shimmy"],
    "minigrid_empty": ["minigrid"],
    "pong": ["ale_py", "cv2"],
}


def preset(name, **settings):
    missing = [package for package in PACKAGES[name] if not importlib.util.find_spec(package)]
    if missing:
        pytest.skip(f"needs {missing[0]}")
    return load_config(name, num_processes=1, **settings)


def make(config, number=2):
    return contextlib.closing(make_environments(config, check_environment(config), number))


def roll(envs, seed, steps=40):
    """All observations and rewards [T, ...] of a batch, with the same actions for all environments, always."""
    space = envs.single_action_space
    space.seed(5)
    observ, _ = envs.reset(seed=seed)
    seen = [[*flatten(envs.single_observation_space, observ), np.zeros(envs.num_envs)]]
    for _ in range(steps):
        observ, reward, *_ = envs.step(np.stack([space.sample()] * envs.num_envs))
        seen.append([*flatten(envs.single_observation_space, observ), reward])
    return [np.stack(column) for column in zip(*seen, strict=True)]


def equal(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("name", PACKAGES)
def test_equal_seeds_give_equal_episodes(name):
    """Whatever an environment was used for before."""
    with make(preset(name), 3) as envs:
        assert leaf_spaces(envs.single_observation_space)
        first = roll(envs, [3, 3, 8])
        assert equal([column[:, 0] for column in first], [column[:, 1] for column in first])
        if name != "minigrid_empty":  # It is always the same.
            assert not equal([column[:, 0] for column in first], [column[:, 2] for column in first])
        roll(envs, [4, 5, 6], steps=15)
        envs.reset()
        assert equal(first, roll(envs, [3, 3, 8]))


def test_time_limits_of_dm_control_truncate():
    preset("dm_cartpole_swingup")
    settings = {"env_kwargs": {"task_kwargs": {"time_limit": 0.075}}, "num_processes": 1}
    with make(load_config("default", env="dm_control/humanoid/run", **settings)) as envs:
        assert envs.single_observation_space["head_height"].shape == ()
        envs.reset()
        flags = [envs.step(envs.action_space.sample())[2:4] for _ in range(4)]
        assert [terminated.any() for terminated, _ in flags] == [False] * 4
        assert [truncated.all() for _, truncated in flags] == [False, False, True, False], "steps of 0.025 seconds"


def test_bodies_that_dm_control_draws_at_random_are_equal():
    """In environments that were made apart: drawing is not a part of a reset."""
    preset("dm_cartpole_swingup")
    with make(load_config("default", env="dm_control/lqr/lqr_2_1", num_processes=1)) as envs:
        twins = roll(envs, [3, 3])
        assert equal([column[:, 0] for column in twins], [column[:, 1] for column in twins])


@pytest.mark.parametrize("name", preset_names())
def test_wrappers_and_environments_of_presets_exist(name):
    config = load_config(name)
    try:
        spec = check_environment(config)
    except Exception as error:
        if "which is not installed" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    assert spec.entry_point
