"""The environments in TensorFlow against Gymnasium's."""

import re
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from agents import envs
from agents.config import load_config
from agents.envs import registration
from agents.scripts.train import train

IDS = ["Acrobot-v1", "CartPole-v1", "MountainCarContinuous-v0", "Pendulum-v1"]
# Any state that there may be, so that angles wrap around, speeds are clipped and episodes end.
RANGES = {
    "Acrobot-v1": [np.pi, np.pi, 4 * np.pi, 9 * np.pi],
    "CartPole-v1": [2.4, 4, 0.2, 4],
    "MountainCarContinuous-v0": [0.6, 0.07],
    "Pendulum-v1": [10, 8],
}
# What one step may differ by. Gymnasium's Pendulum computes the torque, and its MountainCar all, in single precision.
TOLERANCES = {"Acrobot-v1": 1e-12, "CartPole-v1": 1e-13, "MountainCarContinuous-v0": 1e-7, "Pendulum-v1": 1e-7}
# What observations and rewards of an episode of 100 steps may differ by, relative and absolute.
EPISODE_TOLERANCES = {
    # Double precision in both: chaos makes little of 1e-16 in 20 seconds. Observations are rounded to single precision.
    "Acrobot-v1": 1e-6,
    # Likewise: the pole's fall makes e^8 times as much of it in 2 seconds.
    "CartPole-v1": 1e-6,
    # Both round to single precision, now and then to neighbouring numbers: 100 times 6e-8 where that adds up.
    "MountainCarContinuous-v0": 1e-5,
    # Gymnasium's rounded torque changes the speed by some 1e-8 in a step. An upright pendulum makes 48 times as much of
    # it in a second, and stands upright for a part of the 5 seconds; 7e-5 was seen.
    "Pendulum-v1": 1e-3,
}

every_env = pytest.mark.parametrize("env", IDS)


def random_states(env, number, generator):
    high = np.array(RANGES[env])
    states = generator.uniform(-high, high, (number, len(high)))
    if env == "MountainCarContinuous-v0":  # As rounded as it is after every step.
        return (states - [0.3, 0]).astype(np.float32)
    return states


def random_actions(space, number, generator):
    if isinstance(space, gymnasium.spaces.Discrete):
        return generator.integers(space.n, size=number)
    return generator.uniform(space.low, space.high, (number, *space.shape)).astype(space.dtype)


def states_of(envs):
    return np.stack([leaf.numpy() for leaf in envs._state], axis=1)


def assign_states(envs, states):
    for variable, column in zip(envs._state, states.T, strict=True):
        variable.assign(column)


def step_each(envs, actions):
    """Observations, rewards, terminated and truncated of Gymnasium's environments, [B, ...]."""
    steps = [one.step(action)[:4] for one, action in zip(envs, actions, strict=True)]
    return [np.array(part) for part in zip(*steps, strict=True)]


@every_env
def test_a_hundred_episodes_equal_gymnasiums(env):
    number, steps, limit = 100, 202, 100
    ours = envs.make(env, number, max_episode_steps=limit)
    theirs = [gymnasium.make(env, max_episode_steps=limit, disable_env_checker=True) for _ in range(number)]
    space, tolerance = ours.action_space, EPISODE_TOLERANCES[env]
    simulate = tf.function(ours.simulate, jit_compile=True)
    generator, row = np.random.default_rng(1), np.arange(number)
    ours.reset(seed=tf.range(number, dtype=tf.int64))
    ended = np.ones(number, bool)
    episodes, whole, outside = 0, 0, 0
    for _ in range(steps):
        # The two have equal states where an episode begins, and go their own ways from there. Every second row begins
        # anywhere, the others as they do.
        states = states_of(ours)
        anywhere = (ended & (row % 2 == 0))[:, None]
        states = np.where(anywhere, random_states(env, number, generator), states).astype(states.dtype)
        assign_states(ours, states)
        for index in np.flatnonzero(ended):
            theirs[index].reset()
            theirs[index].unwrapped.state = states[index].copy()
        actions = random_actions(space, number, generator)
        if env == "CartPole-v1":  # Random pushes topple it in some 20 steps.
            actions = np.where(generator.random(number) < 0.8, states[:, 2] + states[:, 3] > 0, actions)
        elif isinstance(space, gymnasium.spaces.Box):  # In half of the rows also what has to be clipped.
            actions[row % 4 >= 2] *= 1.5
            outside += np.sum(np.abs(actions) > space.high)
        outcome = simulate(tf.constant(actions))
        observ, reward, terminated, truncated = step_each(theirs, actions)
        # All of them: a state as close to where flags change as these differ would be a rare accident.
        np.testing.assert_array_equal(outcome.terminated, terminated)
        np.testing.assert_array_equal(outcome.truncated, truncated)
        np.testing.assert_allclose(outcome.final_observ, observ, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(outcome.reward, reward, rtol=tolerance, atol=tolerance)
        ended = terminated.astype(bool) | truncated.astype(bool)
        episodes += ended.sum()
        whole += truncated.sum()
    assert number * steps >= 10_000 and episodes >= 100
    assert whole >= 100
    assert (outside > 1000) == isinstance(space, gymnasium.spaces.Box)


@every_env
def test_ten_thousand_single_steps_equal_gymnasiums(env):
    number, steps, limit = 100, 110, 45
    ours = envs.make(env, number, max_episode_steps=limit)
    theirs = [gymnasium.make(env, max_episode_steps=limit, disable_env_checker=True) for _ in range(number)]
    simulate = tf.function(ours.simulate, jit_compile=True)
    generator = np.random.default_rng(0)
    counts = {"terminated": 0, "truncated": 0}
    ours.reset(seed=tf.range(number, dtype=tf.int64))
    ended = np.ones(number, bool)
    for _ in range(steps):
        # Every second episode begins anywhere, the others as they do.
        anywhere = (ended & (generator.random(number) < 0.5))[:, None]
        states = states_of(ours)
        states = np.where(anywhere, random_states(env, number, generator), states).astype(states.dtype)
        assign_states(ours, states)
        for row, (one, state) in enumerate(zip(theirs, states, strict=True)):
            if ended[row]:
                one.reset()
            one.unwrapped.state = state.copy()
        actions = random_actions(theirs[0].action_space, number, generator)
        outcome = simulate(tf.constant(actions))
        observ, reward, terminated, truncated = step_each(theirs, actions)
        np.testing.assert_array_equal(outcome.terminated, terminated)
        np.testing.assert_array_equal(outcome.truncated, truncated)
        np.testing.assert_allclose(outcome.final_observ, observ, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(outcome.reward, reward, rtol=1e-6, atol=1e-6)
        ended = terminated.astype(bool) | truncated.astype(bool)
        np.testing.assert_array_equal(ours.observ.numpy()[~ended], outcome.final_observ.numpy()[~ended])
        after = states_of(ours)[~ended]
        expected = np.array([one.unwrapped.state for one in theirs])[~ended]
        np.testing.assert_allclose(after, expected, rtol=TOLERANCES[env], atol=TOLERANCES[env])
        counts["terminated"] += terminated.sum()
        counts["truncated"] += truncated.sum()
    assert number * steps >= 10_000 and sum(counts.values()) >= 100
    assert counts["truncated"] >= 10
    assert (counts["terminated"] >= 10) == (env != "Pendulum-v1")


@every_env
def test_spaces_and_time_limits_are_gymnasiums(env):
    ours, theirs = envs.make(env, 1), gymnasium.make(env)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert registration.find_spec(env).max_episode_steps == theirs.spec.max_episode_steps


@every_env
def test_episodes_begin_as_gymnasiums_do(env):
    number = 2000
    ours, theirs = envs.make(env, number), gymnasium.make(env)
    observs = ours.reset(seed=tf.range(number, dtype=tf.int64)).numpy()
    expected = np.array([theirs.reset(seed=seed)[0] for seed in range(number)])
    assert observs.dtype == expected.dtype
    for component, other in zip(observs.T, expected.T, strict=True):
        assert scipy.stats.ks_2samp(component, other).pvalue > 0.001


def test_arguments_that_gymnasiums_have():
    step = {}
    for name, env, arguments in (
        ("g", "Pendulum-v1", {"g": 3.0}),
        ("reward", "CartPole-v1", {"sutton_barto_reward": True}),
        ("goal", "MountainCarContinuous-v0", {"goal_velocity": 0.05}),
    ):
        ours, theirs = envs.make(env, 1, **arguments), gymnasium.make(env, **arguments)
        state = {"g": [1.0, 2.0], "reward": [0.0, 0.0, 0.3, 0.0], "goal": [0.44, 0.03]}[name]
        state = np.array(state, np.float32 if name == "goal" else np.float64)
        theirs.reset()
        theirs.unwrapped.state = state
        for variable, value in zip(ours._state, state, strict=True):
            variable.assign([value])
        action = theirs.action_space.sample()
        outcome = ours.simulate(tf.constant(np.asarray(action)[None]))
        observ, reward, terminated, *_ = theirs.step(action)
        np.testing.assert_allclose(outcome.final_observ[0], observ, rtol=1e-6)
        np.testing.assert_allclose(outcome.reward[0], reward, rtol=1e-6)
        assert outcome.terminated[0] == terminated
        step[name] = reward
    assert step["reward"] == -1 and step["goal"] < 0  # With the usual arguments they are 1 and about 100.


def test_the_guides_example_trains(tmp_path, monkeypatch):
    guide = (Path(__file__).parents[1] / "README.md").read_text().partition("## Environments in TensorFlow")[2]
    (tmp_path / "my_envs.py").write_text(re.search(r"```python\n(.*?)```", guide, re.DOTALL)[1])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registration, "_specs", dict(registration._specs))
    settings = {"steps": 2400, "rollout_length": 50, "minibatch_size": 50, "layers": (16,), "learning_rate": 0.003}
    config = load_config("default", env="my_envs:Target-v0", env_backend="tf", eval_interval=400, **settings)
    try:
        first, *_, last = train(config)
    finally:
        sys.modules.pop("my_envs", None)
    assert first < -20
    assert last > -15
