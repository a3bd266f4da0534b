import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.ppo.sequences import flatten_time, states_before, to_sequences


@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.lists(st.integers(1, 3), max_size=2)
)
@settings(max_examples=30, deadline=None)
def test_sequences_are_pieces_of_the_steps_of_one_environment(pieces, length, envs, shape):
    array = np.arange(pieces * length * envs * int(np.prod(shape))).reshape(
        [pieces * length, envs, *shape]
    )
    sequences = to_sequences({"leaf": tf.constant(array)}, length)["leaf"]
    expected = [
        array[start : start + length, env]
        for start in range(0, len(array), length)
        for env in range(envs)
    ]
    np.testing.assert_array_equal(sequences, expected)


def test_single_steps_are_in_the_order_of_time():
    array = np.arange(12).reshape(3, 2, 2)
    np.testing.assert_array_equal(flatten_time(tf.constant(array)), array.reshape(6, 2))


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_states_before_sequences_are_those_after_the_step_before_unless_an_episode_begins(length):
    after = np.arange(1.0, 25.0).reshape(6, 2, 2)
    start = -np.ones([2, 2])
    begins = np.zeros([6, 2], bool)
    begins[2, 0] = begins[3, 1] = True
    before = states_before(
        (tf.constant(after),), (tf.constant(start),), tf.constant(begins), length
    )[0]
    every = np.concatenate([start[None], after[:-1]])
    every[begins] = 0
    np.testing.assert_array_equal(before, every[::length].reshape(-1, 2))
