"""Every family as people use it: by its id, in worker processes; skipped if not installed."""

import contextlib
import functools
import importlib.util

import numpy as np
import pytest

from agents.environments.registration import find_spec, make_env
from agents.errors import UsageError
from agents.settings.config_file import load_config, preset_names
from agents.settings.entry_points import load_function
from agents.spaces import flatten, leaf_spaces
from agents.vector.process_batch import make_batch_env

PACKAGES = {
    "half_cheetah_bullet": ["pybullet", "pybullet_envs_gymnasium"],
    "bipedal_walker": ["Box2D"],
    "dm_cartpole_swingup": ["dm_control", "shimmy"],
    "minigrid_empty": ["minigrid"],
    "pong": ["ale_py", "cv2"],
}


def make(preset, num_envs):
    """A preset's environments in one worker process."""
    missing = [package for package in PACKAGES[preset] if not importlib.util.find_spec(package)]
    if missing:
        pytest.skip(f"needs {missing[0]}")
    config = load_config(preset)
    constructor = functools.partial(
        make_env,
        find_spec(config.env),
        config.env_kwargs,
        config.max_episode_steps,
        config.action_repeat,
        config.env_wrappers,
        config.action_mask,
    )
    return contextlib.closing(make_batch_env([constructor] * num_envs, 1))


def roll(envs, seed, steps=40):
    """Returns all observations and rewards [T, B, ...]; all environments get the same actions."""
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


@pytest.mark.parametrize("preset", PACKAGES)
def test_equal_seeds_give_equal_episodes(preset):
    """Whatever an environment was used for before."""
    with make(preset, 3) as envs:
        assert leaf_spaces(envs.single_observation_space)
        first = roll(envs, [3, 3, 8])
        assert equal([column[:, 0] for column in first], [column[:, 1] for column in first])
        if preset != "minigrid_empty":  # It has no random numbers.
            assert not equal([column[:, 0] for column in first], [column[:, 2] for column in first])
        roll(envs, [4, 5, 6], steps=15)
        envs.reset()
        assert equal(first, roll(envs, [3, 3, 8]))


@pytest.mark.parametrize("preset", preset_names())
def test_environments_and_wrappers_of_presets_exist(preset):
    config = load_config(preset)
    for name in (*config.env_wrappers, *config.train_wrappers):
        load_function(name, "env_wrappers")
    try:
        spec = find_spec(config.env)
    except UsageError as error:
        if "which is not installed" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    assert spec.entry_point
