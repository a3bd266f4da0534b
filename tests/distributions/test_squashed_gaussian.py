import itertools

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from agents.distributions.gaussian import Gaussian
from agents.distributions.squashed_gaussian import ParametricSquashedGaussian, SquashedGaussian
from tests.distributions.numerics import floats, gradients

NUM_SAMPLES = 40_000
LOW, HIGH = np.array([-2.0, 1.0, 0.0]), np.array([3.0, 1.5, 100.0])
SPACE = spaces.Box(LOW.astype(np.float32), HIGH.astype(np.float32))
NO_SCALE = np.zeros(1, np.float32)


def log_slope(u):
    """Logarithm of the derivative of tanh."""
    return 2 * np.log(2) - 2 * np.logaddexp(u, -u)


def mean_log_slope(mean, std):
    """Its expectation by quadrature over a normal distribution, in pieces around the kink at 0."""
    pieces = sorted(
        {float(np.clip((kink - mean) / std, -12, 12)) for kink in (-8, -2, 0, 2, 8)} | {-12.0, 12.0}
    )
    total = 0.0
    for low, high in itertools.pairwise(pieces):
        total += integrate.quad(
            lambda x: log_slope(mean + std * x) * stats.norm.pdf(x), low, high, epsabs=1e-11
        )[0]
    return total


@given(st.data(), st.lists(st.integers(1, 3), max_size=2))
@settings(max_examples=25, deadline=None)
def test_densities_are_those_of_the_action(data, batch):
    mean, u = (data.draw(floats(-3, 3, *batch, 3)) for _ in range(2))
    log_std = data.draw(floats(-1, 1, 3))
    parametric = ParametricSquashedGaussian(SPACE)
    log_prob = parametric.distribution([tf.constant(mean), tf.constant(log_std)]).log_prob(
        tf.constant(u)
    )
    assert log_prob.shape == tuple(batch)
    # The density by finite differences of the cumulative distribution function of the action.
    action = LOW + (HIGH - LOW) * (np.tanh(u.astype(np.float64)) + 1) / 2
    step = 1e-4 * np.minimum(action - LOW, HIGH - action)

    def log_cdf(action):
        u = np.arctanh(2 * (action - LOW) / (HIGH - LOW) - 1)
        return stats.norm.logcdf(u, mean, np.exp(log_std.astype(np.float64)))

    # d cdf = cdf * d log(cdf), which is more precise far below the mean.
    difference = log_cdf(action + step) - log_cdf(action - step)
    density = np.exp(log_cdf(action)) * difference / (2 * step)
    precise = density > 1e-6  # For less, the difference of numbers close to 1 cancels.
    expected = np.log(np.maximum(density, 1e-300)).sum(-1)
    rows = precise.all(axis=-1)
    np.testing.assert_allclose(log_prob.numpy()[rows], expected[rows], atol=2e-3)


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


def test_entropies_of_a_batch_are_those_of_its_rows():
    mean = np.random.default_rng(0).normal(size=[2, 4, 3]).astype(np.float32)
    log_std = tf.constant([-1.0, 0.0, 1.0])
    parametric = ParametricSquashedGaussian(SPACE)
    entropy = parametric.distribution([tf.constant(mean), log_std]).entropy()
    assert entropy.shape == (2, 4)
    for index in np.ndindex(2, 4):
        alone = parametric.distribution([tf.constant(mean[index][None]), log_std]).entropy()
        np.testing.assert_allclose(entropy[index], alone[0], rtol=1e-5, atol=1e-6)


def test_entropy_is_the_negative_mean_log_density_of_samples():
    parametric = ParametricSquashedGaussian(SPACE, state_dependent_std=True)
    mean, log_std = np.array([0.5, -1.0, 3.0], np.float32), np.array([-1.0, 0.0, 1.0], np.float32)
    distribution = parametric.distribution(
        [tf.constant(np.tile(one, [NUM_SAMPLES, 1])) for one in (mean, log_std)]
    )
    noise = parametric.noise(tf.random.Generator.from_seed(0), [NUM_SAMPLES])
    log_prob = distribution.log_prob(distribution.sample(noise)).numpy()
    assert np.abs(distribution.entropy()[0] + log_prob.mean()) < 4 * log_prob.std() / np.sqrt(
        NUM_SAMPLES
    )
    other = parametric.distribution([mean[None] + 0.3, log_std[None] - 0.2])
    normal = Gaussian(mean[None], log_std[None])
    np.testing.assert_array_equal(
        parametric.distribution([mean[None], log_std[None]]).kl(other),
        normal.kl(Gaussian(mean[None] + 0.3, log_std[None] - 0.2)),
    )


def test_actions_are_within_bounds_and_have_the_given_distribution():
    parametric = ParametricSquashedGaussian(SPACE)
    mean, log_std = np.array([0.5, -1.0, 3.0], np.float32), np.array([-1.0, 0.0, 2.0], np.float32)
    distribution = parametric.distribution(
        [tf.constant(np.tile(mean, [NUM_SAMPLES, 1])), tf.constant(log_std)]
    )
    sample = distribution.sample(parametric.noise(tf.random.Generator.from_seed(0), [NUM_SAMPLES]))
    action = parametric.to_environment(sample).numpy()
    assert all(SPACE.contains(one) for one in action)
    squashed = 2 * (action[:, :2].astype(np.float64) - LOW[:2]) / (HIGH - LOW)[:2] - 1
    recovered = np.arctanh(np.clip(squashed, -1 + 1e-7, 1 - 1e-7))  # u, [N, 2]
    for dimension in range(2):
        normal = stats.norm(mean[dimension], np.exp(log_std[dimension]))
        assert stats.kstest(recovered[:, dimension], normal.cdf).pvalue > 1e-3


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
