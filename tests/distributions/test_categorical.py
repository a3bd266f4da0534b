import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import special, stats

from agents.distributions.categorical import (
    Categorical,
    MultiCategorical,
    ParametricCategorical,
    ParametricMultiCategorical,
)
from tests.distributions.numerics import floats

NUM_SAMPLES = 40_000
BATCHES = st.lists(st.integers(1, 3), max_size=2)


def finite(*tensors):
    return all(np.isfinite(tensor).all() for tensor in tensors)


def split_last(array, sizes):
    """Splits the last axis."""
    return np.split(array, np.cumsum(sizes)[:-1], axis=-1)


@given(st.data(), BATCHES, st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_equals_scipy(data, batch, size):
    logits, other_logits = (data.draw(floats(-20, 20, *batch, size)) for _ in range(2))
    sample = data.draw(arrays.arrays(np.int32, tuple(batch), elements=st.integers(0, size - 1)))
    distribution, other = Categorical(tf.constant(logits)), Categorical(tf.constant(other_logits))
    log_probs = special.log_softmax(logits.astype(np.float64), axis=-1)
    others = special.log_softmax(other_logits.astype(np.float64), axis=-1)
    expected = np.take_along_axis(log_probs, sample[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(
        distribution.log_prob(tf.constant(sample)), expected, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        distribution.entropy(), stats.entropy(np.exp(log_probs), axis=-1), rtol=1e-4, atol=1e-5
    )
    kl = stats.entropy(np.exp(log_probs), np.exp(others), axis=-1)
    np.testing.assert_allclose(distribution.kl(other), kl, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        distribution.statistics()["probability"], np.exp(log_probs), rtol=1e-4, atol=1e-7
    )
    mode = distribution.mode().numpy()
    assert mode.dtype == np.int32
    most_likely = np.take_along_axis(logits, mode[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(most_likely, logits.max(axis=-1), atol=1e-5)


def separate_categoricals(logits, sizes, mask):
    """A categorical distribution for each component."""
    masks = [None] * len(sizes) if mask is None else split_last(mask, sizes)
    return [
        ParametricCategorical(spaces.Discrete(part.shape[-1])).distribution([part], mask)
        for part, mask in zip(split_last(logits, sizes), masks, strict=True)
    ]


@given(st.data(), BATCHES, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_multi_categorical_equals_separate_categoricals(data, batch, sizes, masked):
    logits, other_logits = (data.draw(floats(-20, 20, *batch, sum(sizes))) for _ in range(2))
    mask = None
    if masked:
        flags = st.integers(0, 1)
        mask = data.draw(arrays.arrays(np.int8, (*batch, sum(sizes)), elements=flags))
    noise = data.draw(floats(-4, 16, *batch, sum(sizes)))
    distribution, other = (MultiCategorical(one, sizes, mask) for one in (logits, other_logits))
    single, others = (separate_categoricals(one, sizes, mask) for one in (logits, other_logits))
    noises = split_last(noise, sizes)
    draws = [one.sample(part) for one, part in zip(single, noises, strict=True)]
    np.testing.assert_array_equal(distribution.sample(noise), np.stack(draws, axis=-1))
    modes = np.stack([one.mode() for one in single], axis=-1)
    np.testing.assert_array_equal(distribution.mode(), modes)
    categories = [st.integers(0, size - 1) for size in sizes]
    sample = np.stack(
        [data.draw(arrays.arrays(np.int32, tuple(batch), elements=one)) for one in categories],
        axis=-1,
    )  # [..., A]
    log_prob = distribution.log_prob(tf.constant(sample))
    assert log_prob.shape == tuple(batch)
    np.testing.assert_allclose(
        log_prob,
        sum(one.log_prob(sample[..., k]).numpy() for k, one in enumerate(single)),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        distribution.entropy(), sum(one.entropy().numpy() for one in single), rtol=1e-5, atol=1e-6
    )
    kl = sum(one.kl(two).numpy() for one, two in zip(single, others, strict=True))
    np.testing.assert_allclose(distribution.kl(other), kl, rtol=1e-5, atol=1e-5)
    statistics = distribution.statistics()
    np.testing.assert_array_equal(statistics["mode"], distribution.mode())
    probability = np.concatenate([one.statistics()["probability"] for one in single], axis=-1)
    # Logarithms between -40 and 0 are rounded by up to 2e-6.
    np.testing.assert_allclose(statistics["probability"], probability, rtol=1e-5)


@given(st.data(), BATCHES, st.integers(1, 5), st.sampled_from([np.bool_, np.int8]))
@settings(max_examples=25, deadline=None)
def test_masked_categories_have_zero_probability_and_the_others_are_normalized(
    data, batch, size, dtype
):
    logits, other_logits = (data.draw(floats(-5, 5, *batch, size)) for _ in range(2))
    mask = data.draw(
        arrays.arrays(dtype, (*batch, size), elements=st.sampled_from([dtype(0), dtype(1)]))
    )
    # Rows without any valid category are not masked.
    valid = np.where(mask.any(axis=-1, keepdims=True), mask, True).astype(bool)
    parametric = ParametricCategorical(spaces.Discrete(size))
    variable = tf.Variable(logits)
    with tf.GradientTape(persistent=True) as tape:
        distribution = parametric.distribution([variable], tf.constant(mask))
        other = parametric.distribution([tf.constant(other_logits)], tf.constant(mask))
        values = (
            distribution.entropy(),
            distribution.kl(other),
            other.kl(distribution),
            distribution.log_prob(distribution.mode()),
        )
    probability = distribution.statistics()["probability"].numpy()
    assert np.all(probability[~valid] == 0)
    weights, others = (
        np.where(valid, np.exp(np.float64(one)), 0) for one in (logits, other_logits)
    )
    np.testing.assert_allclose(probability, weights / weights.sum(-1, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(values[0], stats.entropy(weights, axis=-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        values[1], stats.entropy(weights, others, axis=-1), rtol=1e-4, atol=1e-5
    )
    for value in values:
        slope = tape.gradient(value, variable).numpy()
        assert finite(value, slope) and np.all(slope[~valid] == 0)
    sample = distribution.sample(parametric.noise(tf.random.Generator.from_seed(0), batch))
    chosen = np.take_along_axis(valid, sample.numpy()[..., None], axis=-1)
    assert chosen.all() and finite(distribution.log_prob(sample))


def test_samples_have_the_given_probabilities():
    probability = np.array([0.5, 0.0, 0.3, 0.2])
    with np.errstate(divide="ignore"):
        logits = np.log(probability).astype(np.float32)
    parametric = ParametricCategorical(spaces.Discrete(4))
    distribution = parametric.distribution([tf.constant(np.tile(logits, [NUM_SAMPLES, 1]))])
    noise = parametric.noise(tf.random.Generator.from_seed(0), [NUM_SAMPLES])
    sample = distribution.sample(noise).numpy()
    assert sample.dtype == np.int32
    counts = np.bincount(sample, minlength=4)
    assert counts[1] == 0
    likely = probability > 0
    assert stats.chisquare(counts[likely], NUM_SAMPLES * probability[likely]).pvalue > 1e-3


def test_components_are_independent_of_each_other():
    parametric = ParametricMultiCategorical(spaces.MultiDiscrete([2, 3]))
    logits = np.log([0.3, 0.7, 0.2, 0.5, 0.3]).astype(np.float32)
    distribution = parametric.distribution([tf.constant(np.tile(logits, [NUM_SAMPLES, 1]))])
    noise = parametric.noise(tf.random.Generator.from_seed(0), [NUM_SAMPLES])
    sample = distribution.sample(noise).numpy()
    counts = np.bincount(sample[:, 0] * 3 + sample[:, 1], minlength=6)
    probability = np.outer([0.3, 0.7], [0.2, 0.5, 0.3]).ravel()
    assert stats.chisquare(counts, NUM_SAMPLES * probability).pvalue > 1e-3


@pytest.mark.parametrize("logits", [[1e4, -1e4, 0.0], [-1e30, 1e30, 0.0], [0.0, -np.inf, 1.0]])
def test_extreme_logits_have_finite_gradients(logits):
    variable = tf.Variable([logits])
    with tf.GradientTape(persistent=True) as tape:
        distribution = Categorical(variable)
        best = tf.reduce_sum(distribution.log_prob(distribution.mode()))
        entropy = tf.reduce_sum(distribution.entropy())
        kl = tf.reduce_sum(distribution.kl(Categorical(variable)))
    assert finite(best, entropy, kl)
    assert finite(*(tape.gradient(value, variable) for value in (best, entropy, kl)))
    expected = stats.entropy(special.softmax(np.array(logits, np.float64)))
    np.testing.assert_allclose(entropy, expected, atol=1e-6)


def test_gradients_equal_finite_differences():
    logits, reference = (
        np.array([[0.3, -1.0, 2.0]], np.float32),
        np.array([[1.0, 0.0, -1.0]], np.float32),
    )
    variable = tf.Variable(logits)
    with tf.GradientTape(persistent=True) as tape:
        distribution = Categorical(variable)
        values = (
            distribution.log_prob(tf.constant([1])),
            distribution.entropy(),
            Categorical(reference).kl(distribution),
        )
    probs = special.softmax(np.float64(reference))
    formulas = (
        lambda logits: special.log_softmax(logits)[0, 1],
        lambda logits: stats.entropy(special.softmax(logits)[0]),
        lambda logits: stats.entropy(probs[0], special.softmax(logits)[0]),
    )
    for value, formula in zip(values, formulas, strict=True):
        steps = 1e-5 * np.eye(3)[:, None]
        slopes = [
            (formula(np.float64(logits) + step) - formula(np.float64(logits) - step)) / 2e-5
            for step in steps
        ]
        np.testing.assert_allclose(tape.gradient(value, variable)[0], slopes, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_actions_start_at_the_start_of_the_space(dtype):
    space = spaces.Discrete(3, start=-1, dtype=dtype)
    action = ParametricCategorical(space).to_environment(tf.constant([0, 1, 2]))
    assert action.dtype == dtype
    np.testing.assert_array_equal(action, [-1, 0, 1])


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_actions_have_the_shape_dtype_and_start_of_the_space(dtype, shape):
    space = spaces.MultiDiscrete(
        np.reshape([2, 3, 1, 4], shape), dtype, start=np.reshape([5, 0, 3, 1], shape)
    )
    sample = tf.constant([[0, 0, 0, 0], [1, 2, 0, 3]])
    action = ParametricMultiCategorical(space).to_environment(sample).numpy()
    assert action.dtype == dtype and all(space.contains(one) for one in action)
    np.testing.assert_array_equal(action.reshape(2, 4), [[5, 0, 3, 1], [6, 2, 3, 4]])


def test_nan_logits_give_actions_within_the_space():
    space = spaces.MultiDiscrete([2, 3])
    parametric = ParametricMultiCategorical(space)
    distribution = parametric.distribution([tf.fill([4, 5], np.nan)])
    noise = parametric.noise(tf.random.Generator.from_seed(0), [4])
    for sample in (distribution.mode(), distribution.sample(noise)):
        assert all(space.contains(one) for one in parametric.to_environment(sample).numpy())
