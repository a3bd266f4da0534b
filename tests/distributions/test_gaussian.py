import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from agents.distributions.gaussian import Gaussian, ParametricGaussian
from agents.distributions.parametric_distribution import Parameter
from tests.distributions.numerics import floats, gradients

NUM_SAMPLES = 40_000


@given(st.data(), st.lists(st.integers(1, 3), max_size=2), st.integers(1, 4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_equals_scipy(data, batch, size, dependent):
    mean, action, other_mean = (data.draw(floats(-10, 10, *batch, size)) for _ in range(3))
    log_std, other_log_std = (
        data.draw(floats(-2, 2, *(batch if dependent else []), size)) for _ in range(2)
    )
    distribution, other = (
        Gaussian(tf.constant(mean), tf.constant(log_std)),
        Gaussian(other_mean, other_log_std),
    )
    normal = stats.norm(mean.astype(np.float64), np.exp(log_std.astype(np.float64)))
    log_prob = distribution.log_prob(tf.constant(action))
    assert (
        log_prob.shape
        == distribution.entropy().shape
        == distribution.kl(other).shape
        == tuple(batch)
    )
    np.testing.assert_allclose(log_prob, normal.logpdf(action).sum(-1), rtol=2e-4, atol=1e-4)
    np.testing.assert_allclose(
        distribution.entropy(), normal.entropy().sum(-1), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(distribution.mode(), mean)
    statistics = distribution.statistics()
    np.testing.assert_array_equal(statistics["mode"], mean)
    np.testing.assert_allclose(statistics["std"], normal.std(), rtol=1e-5)
    # Quadrature is exact, since log-densities are polynomials.
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    points = normal.mean()[..., None] + normal.std()[..., None] * nodes
    to = stats.norm(
        other_mean[..., None].astype(np.float64),
        np.exp(other_log_std.astype(np.float64))[..., None],
    )
    at = stats.norm(normal.mean()[..., None], normal.std()[..., None])
    kl = ((at.logpdf(points) - to.logpdf(points)) * weights).sum(-1) / weights.sum()
    np.testing.assert_allclose(distribution.kl(other), kl.sum(-1), rtol=1e-4, atol=1e-4)


def test_samples_are_independent_and_have_the_given_distribution():
    mean, std = np.array([-3.0, 0.0, 5.0], np.float32), np.array([0.5, 1.0, 4.0], np.float32)
    parametric = ParametricGaussian(spaces.Box(-1, 1, (3,)))
    distribution = parametric.distribution(
        [tf.constant(np.tile(mean, [NUM_SAMPLES, 1])), tf.constant(np.log(std))]
    )
    noise = parametric.noise(tf.random.Generator.from_seed(0), [NUM_SAMPLES])
    sample = distribution.sample(noise).numpy()
    for dimension in range(3):
        normal = stats.norm(mean[dimension], std[dimension])
        assert stats.kstest(sample[:, dimension], normal.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(sample.T) - np.eye(3)).max() < 5 / np.sqrt(NUM_SAMPLES)


@pytest.mark.parametrize("std", [1e-5, 1.0, 1e3])
@pytest.mark.parametrize("distance", [0.0, 1.0, 50.0])
def test_gradients_are_exact_in_the_tails_and_for_small_deviations(std, distance):
    mean = np.array([2.0], np.float32)
    sample = np.array([2.0 + distance * std], np.float32)
    log_std = np.log([std]).astype(np.float32)
    by_mean, by_log_std = gradients(lambda *both: Gaussian(*both).log_prob(sample), mean, log_std)
    standard = (sample.astype(np.float64) - 2) / np.exp(log_std.astype(np.float64))
    np.testing.assert_allclose(by_mean, standard / np.exp(log_std.astype(np.float64)), rtol=1e-4)
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


def test_parameters_are_those_of_the_space_and_the_settings():
    box = spaces.Box(-1, 1, (2, 3))
    shared, dependent = (
        ParametricGaussian(box, -0.5),
        ParametricGaussian(box, -0.5, state_dependent_std=True),
    )
    assert shared.parameters == (
        Parameter("mean", 6),
        Parameter("log_std", 6, -0.5, independent=True),
    )
    assert dependent.parameters == (Parameter("mean", 6), Parameter("log_std", 6, -0.5))
    assert shared.noise_size == 6 and shared.mask_size == 0


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


def test_masks_are_rejected():
    with pytest.raises(ValueError, match="Gaussian policy takes no action mask"):
        ParametricGaussian(spaces.Box(-1, 1, (1,))).distribution(
            [tf.zeros([1, 1]), tf.zeros([1])], tf.ones([1, 1], tf.bool)
        )


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
