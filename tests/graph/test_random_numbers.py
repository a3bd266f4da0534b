import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from agents.graph.tensor_env import Uniform, fold_in

MODES = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def split_mix_64(state, num_outputs):
    """Outputs of the generator, in Python's integers, which do not overflow."""
    outputs = []
    for _ in range(num_outputs):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
        outputs.append(mixed ^ (mixed >> 31))
    return outputs


def call(function, compiled):
    return tf.function(function, jit_compile=True)() if compiled else function()


def test_the_reference_is_the_published_generator():
    assert split_mix_64(1234567, 3) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@MODES
def test_fold_in_equals_the_generator(compiled):
    keys = [0, 1, 1234567, 2**63, 2**64 - 1]
    column = tf.constant(np.array(keys, np.uint64)[:, None])
    folded = call(lambda: fold_in(column, tf.range(50, dtype=tf.int64)), compiled)
    assert folded.dtype == tf.uint64
    assert folded.numpy().tolist() == [split_mix_64(key, 50) for key in keys]


@MODES
def test_draws_are_the_upper_bits_and_each_call_advances_the_streams(compiled):
    keys = [7, 8]

    def draw():
        uniform = Uniform(tf.constant(keys, tf.uint64))
        return uniform(shape=(2, 3)), uniform(), uniform(-1.0, [1.0, 3.0])

    first, second, third = (draws.numpy() for draws in call(draw, compiled))
    expected = np.array([[(bits >> 11) / 2**53 for bits in split_mix_64(key, 9)] for key in keys])
    np.testing.assert_array_equal(first, expected[:, :6].reshape(2, 2, 3))
    np.testing.assert_array_equal(second, expected[:, 6])
    np.testing.assert_allclose(third, -1 + expected[:, 7:] * [2, 4], rtol=1e-15)
    assert first.dtype == np.float64


def test_streams_of_neighboring_keys_and_indices_are_uniform_and_independent():
    keys = fold_in(tf.constant(0, tf.uint64), tf.range(200))  # As for neighboring seeds,
    keys = fold_in(keys[:, None], tf.range(100))  # and their episodes: [200, 100].
    draws = Uniform(tf.reshape(keys, [-1]))(shape=(2,)).numpy().reshape(200, 100, 2)
    assert scipy.stats.kstest(draws.ravel(), "uniform").pvalue > 0.001
    for one, other in (
        (draws[1:], draws[:-1]),
        (draws[:, 1:], draws[:, :-1]),
        (draws[..., 0], draws[..., 1]),
    ):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(one.size)
