import numpy as np
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.distributions.gaussian import Gaussian, ParametricGaussian
from tests.distributions.references import gradients


def test_gradients_are_exact_in_the_tails_and_for_small_deviations():
    std, distance = (one.reshape(-1, 1) for one in np.meshgrid([1e-5, 1.0, 1e3], [0.0, 1.0, 50.0]))
    mean = np.full_like(std, 2.0, np.float32)  # [N, A]
    sample = np.float32(2.0 + distance * std)
    log_std = np.float32(np.log(std))
    by_mean, by_log_std = gradients(lambda *both: Gaussian(*both).log_prob(sample), mean, log_std)
    exact_std = np.exp(np.float64(log_std))
    standard = (np.float64(sample) - 2) / exact_std
    np.testing.assert_allclose(by_mean, standard / exact_std, rtol=1e-4)
    np.testing.assert_allclose(by_log_std, standard**2 - 1, rtol=1e-4, atol=1e-6)


def test_divergence_of_nearly_equal_distributions_is_precise():
    step = np.array([[0.0003], [0.0004], [0.0005], [0.0006], [0.0007]], np.float32)  # [N, A]
    equal, near = Gaussian(0 * step, 0 * step), Gaussian(step, step)
    step = step[:, 0].astype(np.float64)
    np.testing.assert_allclose(
        near.kl(equal), np.expm1(2 * step) / 2 - step + step**2 / 2, rtol=1e-3
    )
    np.testing.assert_allclose(
        equal.kl(near), np.expm1(-2 * step) / 2 + step + step**2 * np.exp(-2 * step) / 2, rtol=1e-3
    )
    np.testing.assert_array_equal(near.kl(near), 0)
    slopes = gradients(lambda *both: equal.kl(Gaussian(*both)), equal.mean, equal.log_std)
    np.testing.assert_array_equal(slopes, 0)


def test_actions_are_clipped_for_the_environment():
    space = spaces.Box(np.array([[-1.0], [0.0]]), np.array([[1.0], [np.inf]]), dtype=np.float64)
    action = ParametricGaussian(space).to_environment(
        tf.constant([[5.0, 7.0], [-5.0, -7.0], [0.25, 0.5], [np.nan, np.inf]])
    )
    assert action.dtype == tf.float64
    expected = [
        [[1.0], [7.0]],
        [[-1.0], [0.0]],
        [[0.25], [0.5]],
        [[-1.0], [np.finfo(np.float64).max]],
    ]
    np.testing.assert_array_equal(action, expected)
    assert all(space.contains(one) for one in action.numpy())


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)), min_size=1, max_size=4),
    st.data(),
)
@settings(max_examples=30, deadline=None)
def test_scaled_samples_of_one_are_the_bounds(intervals, data):
    low, width = np.array(intervals).T
    space = spaces.Box(low, low + width, dtype=np.float64)
    scaled = np.array(data.draw(st.lists(st.booleans(), min_size=len(low), max_size=len(low))))
    parametric = ParametricGaussian(space, scaled=scaled)
    sample = np.array([[-1], [0.5], [1], [3]], np.float32) * np.ones(len(low), np.float32)  # [4, A]
    action = parametric.to_environment(tf.constant(sample))
    assert action.dtype == tf.float64
    expected = np.where(scaled, low + (sample + 1) / 2 * width, sample)
    np.testing.assert_allclose(
        action, np.clip(expected, space.low, space.high), rtol=1e-9, atol=1e-6
    )
