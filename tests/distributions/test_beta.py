import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special

from agents.distributions.beta import Beta, ParametricBeta
from tests.distributions import references


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
    reference, to = references.Beta(None, raw[:2]), references.Beta(None, raw[2:])
    reference.a, reference.b, to.a, to.b = (one[:, None] for one in (a, b, c, d))
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
    np.testing.assert_allclose(kl, reference.kl(to), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(entropy, reference.entropy(), rtol=1e-6, atol=1e-6)
    expected = reference.log_prob(np.float64(sample)[:, None])
    np.testing.assert_allclose(log_prob, expected, rtol=1e-6, atol=1e-6)
    means = [special.digamma(x) - special.digamma(a + b) for x in (a, b)]
    others = [special.digamma(x) - special.digamma(c + d) for x in (c, d)]
    for slope, other, mean, inner in zip(slopes[2:], others, means, raw[2:], strict=True):
        expected = (other - mean) * special.expit(np.float64(inner[:, 0]))
        np.testing.assert_allclose(slope[:, 0], expected, rtol=1e-5, atol=1e-9)


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
            loop_gamma(1 + np.logaddexp(0, raw[i][t, b, a]), *proposals[t, b, :, i, :, a])
            for i in range(2)
        )
        np.testing.assert_allclose(sample[t, b, a], first / (first + second), rtol=1e-4)


def test_modes_are_inside_the_bounds():
    raw = tf.constant([[1e9, -200.0], [-200.0, 1e9]])
    mode = Beta(raw, raw[::-1]).mode().numpy()
    np.testing.assert_allclose(mode, [[1, 0], [0, 1]], atol=1e-6)
    assert np.all((mode > 0) & (mode < 1))


def test_samples_become_elements_of_the_largest_box():
    largest = np.finfo(np.float32).max
    space = spaces.Box(-largest, largest, (2,))  # high - low is infinite.
    sample = tf.constant([[1e-7] * 2, [0.25] * 2, [1 - 1e-7] * 2, [np.nan] * 2])
    action = ParametricBeta(space).to_environment(sample).numpy()
    assert all(space.contains(one) for one in action)
    np.testing.assert_allclose(action[1], [-largest / 2] * 2, rtol=1e-6)
    np.testing.assert_array_equal(action[3], space.low)
