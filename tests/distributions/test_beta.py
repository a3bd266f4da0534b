import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from agents.distributions.beta import Beta, ParametricBeta
from tests.distributions.numerics import floats, gradients

NUM_SAMPLES = 40_000


def concentration(raw):
    """The concentrations that parameters stand for."""
    return 1 + np.logaddexp(0, np.float64(raw))


def divergence(a, b, c, d):
    """KL divergence from Beta(a, b) to Beta(c, d)."""
    means = special.digamma(a) - special.digamma(a + b), special.digamma(b) - special.digamma(a + b)
    return special.betaln(c, d) - special.betaln(a, b) + (a - c) * means[0] + (b - d) * means[1]


@given(st.data(), st.lists(st.integers(1, 3), max_size=2), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_equals_scipy(data, batch, size):
    raw = [data.draw(floats(-20, 20, *batch, size)) for _ in range(4)]
    sample = data.draw(floats(2**-7, 1 - 2**-7, *batch, size))
    a, b, c, d = map(concentration, raw)
    distribution, other, reference = Beta(*raw[:2]), Beta(*raw[2:]), stats.beta(a, b)
    log_prob = distribution.log_prob(tf.constant(sample))
    assert (
        log_prob.shape
        == distribution.entropy().shape
        == distribution.kl(other).shape
        == tuple(batch)
    )
    np.testing.assert_allclose(log_prob, reference.logpdf(sample).sum(-1), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(
        distribution.entropy(), reference.entropy().sum(-1), rtol=1e-5, atol=1e-4
    )
    np.testing.assert_allclose(
        distribution.kl(other), divergence(a, b, c, d).sum(-1), rtol=1e-5, atol=1e-4
    )
    np.testing.assert_allclose(distribution.statistics()["std"], reference.std(), rtol=1e-5)
    mode = distribution.statistics()["mode"]
    np.testing.assert_array_equal(mode, distribution.mode())
    np.testing.assert_allclose(mode, (a - 1) / (a + b - 2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_large_concentrations_and_close_pairs_lose_no_digits(compiled):
    sizes = np.array([1e-2, 0.3, 1, 10, 1e3, 1e5])
    changes = np.array([0, 1e-4, 1e-3, 0.1])
    first, second, change = (grid.ravel() for grid in np.meshgrid(sizes, sizes, changes))
    excess = np.array([first, second, first * (1 + change), second * (1 - change)])
    # The inverse of softplus, which is the identity for large numbers.
    raw = np.where(excess > 30, excess, np.log(np.expm1(np.minimum(excess, 30))))[..., None]
    raw = raw.astype(np.float32)
    a, b, c, d = 1 + tf.nn.softplus(raw).numpy()[..., 0].astype(np.float64)
    sample = ((a - 0.5) / (a + b - 1)).astype(np.float32)

    @tf.function(jit_compile=compiled)
    def results():
        parameters = tf.unstack(tf.constant(raw))
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            own, other = Beta(*parameters[:2]), Beta(*parameters[2:])
            kl = own.kl(other)
        slopes = tape.gradient(kl, parameters)
        return kl, own.entropy(), own.log_prob(sample[:, None]), slopes

    kl, entropy, log_prob, slopes = results()
    np.testing.assert_allclose(kl, divergence(a, b, c, d), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(entropy, stats.beta(a, b).entropy(), rtol=1e-6, atol=1e-6)
    expected = stats.beta(a, b).logpdf(sample.astype(np.float64))
    np.testing.assert_allclose(log_prob, expected, rtol=1e-6, atol=1e-6)
    means = [special.digamma(x) - special.digamma(a + b) for x in (a, b)]
    others = [special.digamma(x) - special.digamma(c + d) for x in (c, d)]
    for slope, other, mean, inner in zip(slopes[2:], others, means, raw[2:], strict=True):
        expected = (other - mean) * special.expit(np.float64(inner[:, 0]))
        np.testing.assert_allclose(slope[:, 0], expected, rtol=1e-5, atol=1e-9)


def test_reference_divergence_is_the_expected_log_ratio_of_densities():
    a, b, c, d = 1.3, 4.0, 6.0, 2.5
    points = (np.arange(100_000) + 0.5) / 100_000
    difference = stats.beta(a, b).logpdf(points) - stats.beta(c, d).logpdf(points)
    np.testing.assert_allclose(
        (stats.beta(a, b).pdf(points) * difference).mean(), divergence(a, b, c, d), rtol=1e-4
    )


@pytest.mark.parametrize("raw", [(0.5, -0.5), (-50.0, 50.0), (50.0, 40.0), (-5.0, -5.0)])
def test_gradients_equal_finite_differences(raw):
    arguments = [np.array([[one]], np.float32) for one in raw]
    sample = np.array([[0.3]], np.float32)
    exact = {
        "log_prob": (
            lambda distribution: distribution.log_prob(sample),
            lambda a, b: stats.beta(a, b).logpdf(np.float64(sample)),
        ),
        "entropy": (
            lambda distribution: distribution.entropy(),
            lambda a, b: stats.beta(a, b).entropy(),
        ),
        "kl": (
            lambda distribution: Beta(0.0 * sample, 0.0 * sample).kl(distribution),
            lambda a, b: divergence(*[concentration(0)] * 2, a, b),
        ),
    }
    for ours, reference in exact.values():
        for index, slope in enumerate(
            gradients(lambda *both, ours=ours: ours(Beta(*both)), *arguments)
        ):
            step = 1e-4 * np.eye(2)[index]
            above, below = (
                reference(*concentration(np.array(raw) + shift)) for shift in (step, -step)
            )
            np.testing.assert_allclose(
                np.squeeze(slope), np.squeeze((above - below) / 2e-4), rtol=2e-3, atol=1e-4
            )


@pytest.mark.parametrize("sample", [1e-6, 1 - 1e-6])
def test_gradients_stay_finite_near_the_bounds(sample):
    for raw in (-50.0, 0.0, 50.0):
        arguments = [np.array([[raw]], np.float32)] * 2
        for slope in gradients(
            lambda *both: Beta(*both).log_prob(tf.constant([[sample]])), *arguments
        ):
            assert np.isfinite(slope).all()


def test_samples_are_independent_and_have_the_given_distribution():
    parametric = ParametricBeta(spaces.Box(-1, 1, (4,)))
    raw = np.array([[-50.0, 0.0, 3.0, 30.0], [-50.0, 1.0, -3.0, 20.0]], np.float32)
    distribution = parametric.distribution(
        [tf.constant(np.tile(one, [NUM_SAMPLES, 1])) for one in raw]
    )
    noise = parametric.noise(tf.random.Generator.from_seed(0), [NUM_SAMPLES])
    assert noise.shape == (NUM_SAMPLES, parametric.noise_size)
    sample = distribution.sample(noise).numpy()
    assert np.all((sample > 0) & (sample < 1))
    for dimension, (a, b) in enumerate(concentration(raw).T):
        assert stats.kstest(sample[:, dimension], stats.beta(a, b).cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(sample.T) - np.eye(4)).max() < 5 / np.sqrt(NUM_SAMPLES)


def loop_gamma(concentration, normal, log_uniform):
    """A Gamma variate of scale 1: Marsaglia and Tsang's loop, which ends with the last acceptance."""
    center = concentration - 1 / 3
    chosen = 1.0
    for x, log_u in zip(normal, log_uniform, strict=True):
        v = (1 + x / np.sqrt(9 * center)) ** 3
        if v > 0 and log_u < 0.5 * x**2 + center * (1 - v + np.log(v)):
            chosen = v
    return center * chosen


def test_samples_equal_a_plain_loop_over_proposals():
    parametric = ParametricBeta(spaces.Box(-1, 1, (2,)))
    raw = [np.float32(np.random.default_rng(i).normal(0, 3, [4, 3, 2])) for i in range(2)]
    noise = parametric.noise(tf.random.Generator.from_seed(0), [4, 3])
    sample = parametric.distribution([tf.constant(one) for one in raw]).sample(noise)
    assert sample.shape == (4, 3, 2)
    proposals = noise.numpy().astype(np.float64).reshape([4, 3, 2, 2, -1, 2])
    for t, b, a in np.ndindex(4, 3, 2):
        first, second = (
            loop_gamma(concentration(raw[i][t, b, a]), *proposals[t, b, :, i, :, a])
            for i in range(2)
        )
        np.testing.assert_allclose(sample[t, b, a], first / (first + second), rtol=1e-4)


def test_modes_are_inside_the_bounds():
    raw = tf.constant([[1e9, -200.0], [-200.0, 1e9]])
    mode = Beta(raw, raw[::-1]).mode().numpy()
    np.testing.assert_allclose(mode, [[1, 0], [0, 1]], atol=1e-6)
    assert np.all((mode > 0) & (mode < 1))


def test_all_proposals_are_rejected_with_negligible_probability():
    points = np.linspace(-8, 8, 200_001)
    for shape in (1.0, 1.5, 3.0, 100.0):
        center = shape - 1 / 3
        cube = np.maximum(1 + points / np.sqrt(9 * center), 0) ** 3
        with np.errstate(divide="ignore"):
            accepted = np.minimum(1, np.exp(0.5 * points**2 + center * (1 - cube + np.log(cube))))
        rate = np.trapezoid(accepted * stats.norm.pdf(points), points)
        assert rate > 0.951 and 2 * (1 - rate) ** 5 < 1e-6


def test_samples_become_elements_of_any_box():
    largest = np.finfo(np.float32).max
    for space in (
        spaces.Box(-0.1, 0.3, (), np.float32),
        spaces.Box(-0.1, 0.3, (2, 1), np.float64),
        spaces.Box(-largest, largest, (2,)),
    ):
        size = int(np.prod(space.shape))
        sample = np.repeat(
            np.array([1e-7, 0.25, 1 - 1e-7, np.nan], np.float32)[:, None], size, axis=1
        )
        action = ParametricBeta(space).to_environment(tf.constant(sample)).numpy()
        assert all(space.contains(np.asarray(one)) for one in action)
        expected = space.low * 0.75 + space.high * 0.25
        np.testing.assert_allclose(action[1], expected, rtol=1e-6)
        np.testing.assert_array_equal(action[3], space.low)


def test_nan_parameters_give_nan_samples():
    parametric = ParametricBeta(spaces.Box(-1, 1, (1,)))
    distribution = parametric.distribution([tf.constant([[np.nan]]), tf.constant([[0.0]])])
    assert np.isnan(distribution.sample(parametric.noise(tf.random.Generator.from_seed(0), [1])))
