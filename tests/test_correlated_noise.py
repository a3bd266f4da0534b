import numpy as np
import pytest
import tensorflow as tf

from agents.parts.correlated_noise import CorrelatedNoise


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.99])
def test_noise_equals_a_plain_loop_over_several_rollouts(correlation):
    independent = np.random.default_rng(0).normal(size=[3, 50, 2, 3]).astype(np.float32)
    correlate = CorrelatedNoise(correlation, [2, 3])
    before = np.zeros([2, 3])
    for rollout in independent:
        noise = correlate(tf.constant(rollout))
        for step in range(50):
            before = correlation * before + np.sqrt(1 - correlation**2) * rollout[step]
            np.testing.assert_allclose(noise[step], before, rtol=1e-4, atol=1e-5)
        if not correlation:
            np.testing.assert_array_equal(noise, rollout)


def test_every_step_is_standard_normal_and_as_alike_the_next_as_was_asked_for():
    correlate = CorrelatedNoise(0.8, [5000, 1])
    noise = correlate(tf.random.stateless_normal([40, 5000, 1], [0, 1])).numpy()[20:, :, 0]
    np.testing.assert_allclose(noise.std(axis=1), 1, atol=0.05)
    alike = [np.corrcoef(noise[step], noise[step + 1])[0, 1] for step in range(19)]
    np.testing.assert_allclose(alike, 0.8, atol=0.03)
