import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import special, stats

from agents.parts.distributions import Categorical, DiagonalGaussian

SAMPLES = 40_000


def floats(low, high, *shape):
    return arrays.arrays(np.float32, shape, elements=st.floats(low, high, width=32))


@given(st.data(), st.lists(st.integers(1, 3), max_size=2), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_gaussian_equals_scipy(data, batch, size):
    mean, action = (data.draw(floats(-10, 10, *batch, size)) for _ in range(2))
    log_std = data.draw(floats(-2, 2, size))
    policy = DiagonalGaussian(tf.constant(mean), tf.constant(log_std))
    normal = stats.norm(mean.astype(np.float64), np.exp(log_std.astype(np.float64)))
    np.testing.assert_allclose(policy.log_prob(tf.constant(action)), normal.logpdf(action).sum(-1), rtol=2e-4)
    np.testing.assert_allclose(policy.entropy(), normal.entropy().sum(-1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(policy.mode(), mean)
    statistics = policy.statistics()
    np.testing.assert_array_equal(statistics["mode"], mean)
    np.testing.assert_allclose(statistics["std"], normal.std(), rtol=1e-5)


def draw(policy, *shape, seed=0):
    return policy.sample(policy.noise(tf.random.Generator.from_seed(seed), list(shape)))


def test_gaussian_samples_have_the_moments_asked_for():
    mean, std = np.array([-3.0, 0.0, 5.0], np.float32), np.array([0.5, 1.0, 4.0], np.float32)
    policy = DiagonalGaussian(tf.constant(np.tile(mean, [SAMPLES, 1])), tf.constant(np.log(std)))
    sample = draw(policy, SAMPLES, 3).numpy()
    assert np.all(np.abs(sample.mean(axis=0) - mean) < 5 * std / np.sqrt(SAMPLES))
    for dimension in range(3):
        assert stats.kstest(sample[:, dimension], stats.norm(mean[dimension], std[dimension]).cdf).pvalue > 1e-4
    correlation = np.corrcoef(sample.T) - np.eye(3)
    assert np.abs(correlation).max() < 5 / np.sqrt(SAMPLES)


@given(st.data(), st.lists(st.integers(1, 3), max_size=2), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_categorical_equals_scipy(data, batch, size):
    logits = data.draw(floats(-20, 20, *batch, size))
    action = data.draw(arrays.arrays(np.int32, tuple(batch), elements=st.integers(0, size - 1)))
    policy = Categorical(tf.constant(logits))
    log_probs = special.log_softmax(logits.astype(np.float64), axis=-1)
    expected = np.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(policy.log_prob(tf.constant(action)), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(policy.entropy(), stats.entropy(np.exp(log_probs), axis=-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(policy.statistics()["probability"], np.exp(log_probs), rtol=1e-4, atol=1e-7)
    mode = policy.mode().numpy()
    assert mode.dtype == np.int32
    most_likely = np.take_along_axis(logits, mode[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(most_likely, logits.max(axis=-1), atol=1e-5)


def test_categorical_samples_have_the_frequencies_asked_for():
    probability = np.array([0.5, 0.0, 0.3, 0.2])
    with np.errstate(divide="ignore"):
        logits = np.log(probability).astype(np.float32)
    sample = draw(Categorical(tf.constant(np.tile(logits, [SAMPLES, 1]))), SAMPLES, 4).numpy()
    assert sample.dtype == np.int32
    counts = np.bincount(sample, minlength=4)
    assert counts[1] == 0
    likely = probability > 0
    assert stats.chisquare(counts[likely], SAMPLES * probability[likely]).pvalue > 1e-4


@pytest.mark.parametrize("logits", [[1e4, -1e4, 0.0], [-1e30, 1e30, 0.0], [0.0, -np.inf, 1.0]])
def test_categorical_with_extreme_logits_has_finite_gradients(logits):
    variable = tf.Variable([logits])
    with tf.GradientTape(persistent=True) as tape:
        policy = Categorical(variable)
        best = tf.reduce_sum(policy.log_prob(policy.mode()))
        entropy = tf.reduce_sum(policy.entropy())
    assert np.isfinite([float(best), float(entropy)]).all()
    assert np.isfinite(tape.gradient(best, variable)).all()
    assert np.isfinite(tape.gradient(entropy, variable)).all()
    expected = stats.entropy(special.softmax(np.array(logits, np.float64)))
    np.testing.assert_allclose(entropy, expected, atol=1e-6)


def test_samples_depend_on_the_generator_alone():
    for policy, size in ((DiagonalGaussian(tf.zeros([50, 2]), tf.zeros([2])), 2), (Categorical(tf.zeros([50, 3])), 3)):
        one, same, other = (draw(policy, 50, size, seed=seed).numpy() for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any()
