import numpy as np
import pytest
import tensorflow as tf

from agents.policies.scan import scan


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_states_follow_one_another(length, reverse, compiled):
    values = np.random.default_rng(0).normal(size=[length, 3]).astype(np.float32)

    def step(arrays, state):
        (value,) = arrays
        return (state[0] + value,), (2 * state[0], value)

    @tf.function(jit_compile=compiled, autograph=False)
    def sums():
        zero = tf.zeros([3])
        return scan(step, (tf.constant(values),), (zero,), (zero, zero), reverse)

    (last,), (doubled, same) = sums()
    in_order = values[::-1] if reverse else values
    before = np.cumsum(in_order, axis=0) - in_order
    np.testing.assert_allclose(last, values.sum(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(doubled, 2 * before[:: -1 if reverse else 1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(same, values)
