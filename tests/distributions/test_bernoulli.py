import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import special, stats

from agents.distributions.bernoulli import Bernoulli, ParametricBernoulli
from tests.distributions.numerics import floats

NUM_SAMPLES = 40_000


def divergence(logits, others):
    """KL divergence of scipy, from log-odds [..., A]."""
    p, q = special.expit(np.float64(logits)), special.expit(np.float64(others))
    return (
        special.rel_entr(p, q)
        + special.rel_entr(special.expit(-np.float64(logits)), special.expit(-np.float64(others)))
    ).sum(-1)


@given(st.data(), st.lists(st.integers(1, 3), max_size=2), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_equals_scipy(data, batch, size):
    shape = (*batch, size)
    logits, others = (data.draw(floats(-30, 30, *shape)) for _ in range(2))
    sample = data.draw(arrays.arrays(np.int32, shape, elements=st.integers(0, 1)))
    distribution, other = Bernoulli(tf.constant(logits)), Bernoulli(tf.constant(others))
    log_prob = distribution.log_prob(tf.constant(sample))
    assert (
        log_prob.shape
        == distribution.entropy().shape
        == distribution.kl(other).shape
        == tuple(batch)
    )
    signed = np.where(sample, logits, -logits).astype(np.float64)
    np.testing.assert_allclose(log_prob, special.log_expit(signed).sum(-1), rtol=1e-5, atol=1e-6)
    reference = np.stack([special.expit(np.float64(logits)), special.expit(-np.float64(logits))])
    np.testing.assert_allclose(
        distribution.entropy(), stats.entropy(reference, axis=0).sum(-1), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        distribution.kl(other), divergence(logits, others), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(distribution.mode(), logits > 0)
    np.testing.assert_array_equal(distribution.statistics()["mode"], distribution.mode())
    np.testing.assert_allclose(distribution.statistics()["probability"], reference[0], rtol=1e-5)


def test_samples_are_independent_and_have_the_given_probabilities():
    probability = np.array([0.1, 0.5, 0.9])
    logits = special.logit(probability).astype(np.float32)
    parametric = ParametricBernoulli(spaces.MultiBinary(3))
    distribution = parametric.distribution([tf.constant(np.tile(logits, [NUM_SAMPLES, 1]))])
    noise = parametric.noise(tf.random.Generator.from_seed(0), [NUM_SAMPLES])
    sample = distribution.sample(noise).numpy()
    counts = np.bincount(sample @ [4, 2, 1], minlength=8)
    sides = np.stack([1 - probability, probability])  # [2, 3]
    expected = np.einsum("i,j,k->ijk", *sides.T).ravel()
    assert stats.chisquare(counts, NUM_SAMPLES * expected).pvalue > 1e-3


@pytest.mark.parametrize("logit", [-1e30, -50.0, -0.5, 0.0, 3.0, 50.0, 1e30])
def test_gradients_equal_finite_differences(logit):
    variable = tf.Variable([[logit]])
    with tf.GradientTape(persistent=True) as tape:
        distribution = Bernoulli(variable)
        values = (
            distribution.log_prob(tf.constant([[1]])),
            distribution.entropy(),
            Bernoulli(tf.constant([[0.5]])).kl(distribution),
        )
    formulas = (
        special.log_expit,
        lambda logit: special.entr(special.expit(logit)) + special.entr(special.expit(-logit)),
        lambda logit: (
            -special.expit(0.5) * special.log_expit(logit)
            - special.expit(-0.5) * special.log_expit(-logit)
        ),
    )
    step = max(1e-5, abs(logit) * 1e-6)
    for value, formula in zip(values, formulas, strict=True):
        slope = (formula(logit + step) - formula(logit - step)) / (2 * step)
        assert np.isfinite(value).all()
        np.testing.assert_allclose(
            tape.gradient(value, variable)[0, 0], slope, rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("shape", [4, (2, 2)])
def test_actions_have_the_shape_and_dtype_of_the_space(shape):
    space = spaces.MultiBinary(shape)
    sample = tf.constant([[0, 1, 1, 0], [1, 1, 1, 1]])
    action = ParametricBernoulli(space).to_environment(sample).numpy()
    assert action.dtype == np.int8 and all(space.contains(one) for one in action)
    np.testing.assert_array_equal(action.reshape(2, 4), [[0, 1, 1, 0], [1, 1, 1, 1]])
