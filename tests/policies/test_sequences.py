import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.policies.sequences import flatten_time, states_before, to_elements


@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.lists(st.integers(1, 3), max_size=2)
)
@settings(max_examples=30, deadline=None)
def test_sequences_are_consecutive_steps_of_one_environment(num_chunks, length, num_envs, shape):
    num_steps = num_chunks * length
    array = np.arange(num_steps * num_envs * int(np.prod(shape)))
    array = array.reshape([num_steps, num_envs, *shape])
    sequences = to_elements({"leaf": tf.constant(array)}, length)["leaf"]
    expected = [
        array[start : start + length, env]
        for start in range(0, len(array), length)
        for env in range(num_envs)
    ]
    np.testing.assert_array_equal(sequences, expected)


def test_single_steps_are_ordered_by_time():
    array = np.arange(12).reshape(3, 2, 2)
    np.testing.assert_array_equal(flatten_time(tf.constant(array)), array.reshape(6, 2))
    np.testing.assert_array_equal(to_elements(tf.constant(array)), array.reshape(6, 2))


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_states_before_sequences_are_those_after_the_previous_step_or_zero(length):
    after = np.arange(1.0, 25.0).reshape(6, 2, 2)
    start = -np.ones([2, 2])
    is_first = np.zeros([6, 2], bool)
    is_first[2, 0] = is_first[3, 1] = True
    before = states_before(
        (tf.constant(after),), (tf.constant(start),), tf.constant(is_first), length
    )[0]
    every = np.concatenate([start[None], after[:-1]])
    every[is_first] = 0
    np.testing.assert_array_equal(before, every[::length].reshape(-1, 2))
