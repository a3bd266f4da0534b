"""Conformance of every environment to the interface."""

import numpy as np
import pytest
import tensorflow as tf

from agents.graph.tensor_env import Uniform
from agents.tensor_envs import Acrobot, CartPole, MountainCarContinuous, Pendulum

NUM_ENVS = 6

every_env = pytest.mark.parametrize("make", [Acrobot, CartPole, MountainCarContinuous, Pendulum])


def uniform(rows=slice(None)):
    """The same streams of random numbers in every call, for rows of the batch."""
    return Uniform(tf.constant(np.arange(NUM_ENVS, dtype=np.uint64)[rows]))


def random_actions(env):
    env.action_space.seed(0)
    return tf.constant(np.stack([env.action_space.sample() for _ in range(NUM_ENVS)]))


def assert_equal(ours, expected):
    tf.nest.map_structure(np.testing.assert_array_equal, ours, expected)


@every_env
def test_observations_are_elements_of_the_space(make):
    env = make()
    state = env.initial_state(uniform())
    for _ in range(5):
        observ = env.observe(state)
        assert observ.shape == (NUM_ENVS, *env.observation_space.shape)
        assert all(env.observation_space.contains(row) for row in observ.numpy())
        state, *_ = env.step(state, random_actions(env), uniform())


@every_env
def test_functions_are_pure(make):
    env = make()
    assert_equal(env.initial_state(uniform()), env.initial_state(uniform()))
    state, actions = env.initial_state(uniform()), random_actions(env)
    copy = tf.nest.map_structure(tf.identity, state)
    assert_equal(env.step(state, actions, uniform()), env.step(state, actions, uniform()))
    assert_equal(state, copy)


@every_env
def test_rows_are_independent_of_each_other(make):
    env, rows = make(), slice(2, 4)

    def select(structure):
        return tf.nest.map_structure(lambda leaf: leaf[rows], structure)

    state, actions = env.initial_state(uniform()), random_actions(env)
    assert_equal(env.initial_state(uniform(rows)), select(state))
    result = env.step(state, actions, uniform())
    result_of_rows = env.step(select(state), actions[rows], uniform(rows))
    tf.nest.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6),
        select(result),
        result_of_rows,
    )
