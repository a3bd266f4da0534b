import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import stats

from agents.distributions.squashed_gaussian import ParametricSquashedGaussian, SquashedGaussian
from tests.distributions.references import gradients, log_slope, mean_log_slope

NO_SCALE = np.zeros(1, np.float32)


def test_log_densities_and_gradients_are_exact_in_the_tails():
    u = np.array([[-50], [-9], [-1], [0], [0.3], [9], [50]], np.float32)  # [N, A]
    mean, log_std = np.full_like(u, 0.5), np.full_like(u, -0.25)
    log_prob = SquashedGaussian(mean, log_std, NO_SCALE).log_prob(u)
    exact, std = np.float64(u), np.exp(-0.25)
    expected = stats.norm.logpdf(exact, 0.5, std) - log_slope(exact)
    np.testing.assert_allclose(log_prob, expected[:, 0], rtol=1e-6, atol=1e-6)
    slopes = gradients(
        lambda sample, *rest: SquashedGaussian(*rest, NO_SCALE).log_prob(sample), u, mean, log_std
    )
    standard = (exact - 0.5) / std
    expected = [-standard / std + 2 * np.tanh(exact), standard / std, standard**2 - 1]
    for slope, theirs in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(slope, theirs, rtol=1e-5, atol=1e-6)


def test_entropies_of_narrow_and_wide_distributions_equal_numerical_integration():
    grid = np.meshgrid([-50.0, -0.3, 0.0, 2.0], [1e-5, 0.1, 1.0, 3.0, 100.0])
    mean, log_std = (one.reshape(-1, 1).astype(np.float32) for one in (grid[0], np.log(grid[1])))
    entropy = SquashedGaussian(mean, log_std, NO_SCALE + np.float32(np.log(2.5))).entropy()
    slopes = gradients(lambda *both: SquashedGaussian(*both, NO_SCALE).entropy(), mean, log_std)
    mean, std = np.float64(mean), np.exp(np.float64(log_std))
    expected = stats.norm(mean, std).entropy() + mean_log_slope(mean, std) + np.log(2.5)
    np.testing.assert_allclose(entropy, expected[:, 0], rtol=1e-6, atol=3e-6)
    step = 1e-3 * np.maximum(std, 1e-2)
    ends = mean_log_slope(mean + step, std) - mean_log_slope(mean - step, std)
    np.testing.assert_allclose(slopes[0], ends / (2 * step), atol=1e-5)
    ends = mean_log_slope(mean, std * np.exp(1e-3)) - mean_log_slope(mean, std * np.exp(-1e-3))
    np.testing.assert_allclose(slopes[1], 1 + ends / 2e-3, rtol=1e-5, atol=2e-5)


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
