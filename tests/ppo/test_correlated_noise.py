import numpy as np
import pytest
import tensorflow as tf

from agents.ppo.correlated_noise import CorrelatedNoise


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.99])
def test_noise_of_several_rollouts_equals_a_plain_loop(correlation):
    independent = np.random.default_rng(0).normal(size=[3, 50, 2, 3]).astype(np.float32)
    last = np.random.default_rng(1).normal(size=[2, 3])
    process = CorrelatedNoise(correlation, tf.constant(last, tf.float32))
    for rollout in independent:
        noise = process.correlate(tf.constant(rollout))
        for step in range(50):
            last = correlation * last + np.sqrt(1 - correlation**2) * rollout[step]
            np.testing.assert_allclose(noise[step], last, rtol=1e-4, atol=1e-5)
        if not correlation:
            np.testing.assert_array_equal(noise, rollout)


def test_checkpoints_hold_the_last_noise_if_there_is_correlation():
    process = CorrelatedNoise(0.5, tf.zeros([2, 1]))
    noise = process.correlate(tf.ones([3, 2, 1]))
    np.testing.assert_array_equal(process.variables()["last"], noise[-1])
    assert CorrelatedNoise(0.0, tf.zeros([2, 1])).variables() == {}
