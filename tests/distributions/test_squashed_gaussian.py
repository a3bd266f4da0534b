import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import stats

from agents.distributions.squashed_gaussian import ParametricSquashedGaussian, SquashedGaussian
from tests.distributions.references import gradients, log_slope, mean_log_slope

NO_SCALE = np.zeros(1, np.float32)


@pytest.mark.parametrize("u", [-50.0, -9.0, -1.0, 0.0, 0.3, 9.0, 50.0])
def test_log_densities_and_gradients_are_exact_in_the_tails(u):
    sample, mean, log_std = (np.array([[number]], np.float32) for number in (u, 0.5, -0.25))
    log_prob = SquashedGaussian(mean, log_std, NO_SCALE).log_prob(sample)
    std = np.exp(-0.25)
    expected = stats.norm.logpdf(np.float64(sample), 0.5, std) - log_slope(np.float64(sample))
    np.testing.assert_allclose(log_prob, expected[:, 0], rtol=1e-6, atol=1e-6)
    by_sample, by_mean, by_log_std = gradients(
        lambda sample, *rest: SquashedGaussian(*rest, NO_SCALE).log_prob(sample),
        sample,
        mean,
        log_std,
    )
    standard = (np.float64(sample) - 0.5) / std
    np.testing.assert_allclose(
        by_sample, -standard / std + 2 * np.tanh(np.float64(sample)), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(by_mean, standard / std, rtol=1e-5)
    np.testing.assert_allclose(by_log_std, standard**2 - 1, rtol=1e-5)


@pytest.mark.parametrize("mean", [-50.0, -0.3, 0.0, 2.0])
@pytest.mark.parametrize("std", [1e-5, 0.1, 1.0, 3.0, 100.0])
def test_entropy_equals_numerical_integration(mean, std):
    log_std = np.log([[std]]).astype(np.float32)
    std = np.exp(log_std.astype(np.float64)).item()
    arguments = np.array([[mean]], np.float32), log_std
    mean = np.float64(np.float32(mean))
    entropy = SquashedGaussian(*arguments, NO_SCALE + np.log(2.5).astype(np.float32)).entropy()
    expected = stats.norm(mean, std).entropy() + mean_log_slope(mean, std) + np.log(2.5)
    np.testing.assert_allclose(entropy, [expected], rtol=1e-6, atol=3e-6)

    by_mean, by_log_std = gradients(
        lambda *both: SquashedGaussian(*both, NO_SCALE).entropy(), *arguments
    )
    step = 1e-3 * max(std, 1e-2)
    slope = (mean_log_slope(mean + step, std) - mean_log_slope(mean - step, std)) / (2 * step)
    np.testing.assert_allclose(by_mean, [[slope]], atol=1e-5)
    step = 1e-3
    slope = (
        mean_log_slope(mean, std * np.exp(step)) - mean_log_slope(mean, std * np.exp(-step))
    ) / (2 * step)
    np.testing.assert_allclose(by_log_std, [[1 + slope]], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (2,), (2, 1)])
def test_samples_become_elements_of_any_box(dtype, shape):
    space = spaces.Box(-0.1, 0.3, shape, dtype)
    size = int(np.prod(shape))
    sample = np.repeat(
        np.array([-50, -1, 0, 1, 50, np.nan, np.inf], np.float32)[:, None], size, axis=1
    )
    action = ParametricSquashedGaussian(space).to_environment(tf.constant(sample)).numpy()
    assert all(space.contains(np.asarray(one)) for one in action)
    squashed = -0.1 + 0.4 * (np.tanh(sample.astype(np.float64)) + 1) / 2
    np.testing.assert_allclose(
        action.reshape(7, size), np.where(np.isnan(squashed), -0.1, squashed), atol=1e-3
    )


def test_extreme_bounds_give_finite_numbers():
    largest = np.finfo(np.float64).max
    space = spaces.Box(
        np.array([-largest, 1.0, 0]), np.array([largest, 1.0, 1e-30]), dtype=np.float64
    )
    parametric = ParametricSquashedGaussian(space)
    distribution = parametric.distribution([tf.zeros([1, 3]), tf.zeros([3])])
    assert np.isfinite(distribution.log_prob(tf.ones([1, 3]))).all()
    assert np.isfinite(distribution.entropy()).all()
    for u in (-50.0, 0.0, 50.0):
        assert space.contains(parametric.to_environment(tf.fill([1, 3], u)).numpy()[0])
