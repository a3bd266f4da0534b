import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import special, stats

from agents.distributions.categorical import Categorical, CategoricalFamily, MultiCategorical, MultiCategoricalFamily

SAMPLES = 40_000
BATCHES = st.lists(st.integers(1, 3), max_size=2)


def floats(low, high, *shape):
    return arrays.arrays(np.float32, shape, elements=st.floats(low, high, width=32, allow_subnormal=False))


def finite(*tensors):
    return all(np.isfinite(tensor).all() for tensor in tensors)


def parts_of(array, sizes):
    """Of the last axis."""
    return np.split(array, np.cumsum(sizes)[:-1], axis=-1)


@given(st.data(), BATCHES, st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_equals_scipy(data, batch, size):
    logits, other_logits = (data.draw(floats(-20, 20, *batch, size)) for _ in range(2))
    sample = data.draw(arrays.arrays(np.int32, tuple(batch), elements=st.integers(0, size - 1)))
    policy, other = Categorical(tf.constant(logits)), Categorical(tf.constant(other_logits))
    log_probs = special.log_softmax(logits.astype(np.float64), axis=-1)
    others = special.log_softmax(other_logits.astype(np.float64), axis=-1)
    expected = np.take_along_axis(log_probs, sample[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(policy.log_prob(tf.constant(sample)), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(policy.entropy(), stats.entropy(np.exp(log_probs), axis=-1), rtol=1e-4, atol=1e-5)
    kl = stats.entropy(np.exp(log_probs), np.exp(others), axis=-1)
    np.testing.assert_allclose(policy.kl(other), kl, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(policy.statistics()["probability"], np.exp(log_probs), rtol=1e-4, atol=1e-7)
    mode = policy.mode().numpy()
    assert mode.dtype == np.int32
    most_likely = np.take_along_axis(logits, mode[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(most_likely, logits.max(axis=-1), atol=1e-5)


@given(st.data(), BATCHES, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_several_choices_are_as_one_after_another(data, batch, sizes, masked):
    logits, other_logits = (data.draw(floats(-20, 20, *batch, sum(sizes))) for _ in range(2))
    sample = np.stack(
        [data.draw(arrays.arrays(np.int32, tuple(batch), elements=st.integers(0, size - 1))) for size in sizes], axis=-1
    )
    mask = data.draw(arrays.arrays(np.int8, (*batch, sum(sizes)), elements=st.integers(0, 1))) if masked else None
    noise = data.draw(floats(-4, 16, *batch, sum(sizes)))
    policy, other = MultiCategorical(logits, sizes, mask), MultiCategorical(other_logits, sizes, mask)
    masks = parts_of(mask, sizes) if masked else [None] * len(sizes)
    single, others = (
        [
            CategoricalFamily(spaces.Discrete(part.shape[-1])).distribution([part], mask)
            for part, mask in zip(parts, masks, strict=True)
        ]
        for parts in (parts_of(logits, sizes), parts_of(other_logits, sizes))
    )
    noises = parts_of(noise, sizes)
    draws = np.stack([one.sample(part) for one, part in zip(single, noises, strict=True)], axis=-1)
    np.testing.assert_array_equal(policy.sample(noise), draws)
    np.testing.assert_array_equal(policy.mode(), np.stack([one.mode() for one in single], axis=-1))
    log_prob = policy.log_prob(tf.constant(sample))
    assert log_prob.shape == tuple(batch)
    np.testing.assert_allclose(
        log_prob, sum(one.log_prob(sample[..., k]).numpy() for k, one in enumerate(single)), rtol=1e-5
    )
    np.testing.assert_allclose(policy.entropy(), sum(one.entropy().numpy() for one in single), rtol=1e-5, atol=1e-6)
    kl = sum(one.kl(two).numpy() for one, two in zip(single, others, strict=True))
    np.testing.assert_allclose(policy.kl(other), kl, rtol=1e-5, atol=1e-5)
    statistics = policy.statistics()
    np.testing.assert_array_equal(statistics["mode"], policy.mode())
    probability = np.concatenate([one.statistics()["probability"] for one in single], axis=-1)
    np.testing.assert_allclose(statistics["probability"], probability, rtol=1e-6)


@given(st.data(), BATCHES, st.integers(1, 5), st.sampled_from([np.bool_, np.int8]))
@settings(max_examples=25, deadline=None)
def test_what_is_masked_has_no_probability_and_the_rest_is_a_distribution(data, batch, size, dtype):
    logits, other_logits = (data.draw(floats(-5, 5, *batch, size)) for _ in range(2))
    mask = data.draw(arrays.arrays(dtype, (*batch, size), elements=st.sampled_from([dtype(0), dtype(1)])))
    valid = np.where(mask.any(axis=-1, keepdims=True), mask, True).astype(
        bool
    )  # Where nothing is valid, everything is.
    family = CategoricalFamily(spaces.Discrete(size))
    variable = tf.Variable(logits)
    with tf.GradientTape(persistent=True) as tape:
        policy = family.distribution([variable], tf.constant(mask))
        other = family.distribution([tf.constant(other_logits)], tf.constant(mask))
        values = policy.entropy(), policy.kl(other), other.kl(policy), policy.log_prob(policy.mode())
    probability = policy.statistics()["probability"].numpy()
    assert np.all(probability[~valid] == 0)
    weights, others = (np.where(valid, np.exp(np.float64(one)), 0) for one in (logits, other_logits))
    np.testing.assert_allclose(probability, weights / weights.sum(-1, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(values[0], stats.entropy(weights, axis=-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values[1], stats.entropy(weights, others, axis=-1), rtol=1e-4, atol=1e-5)
    for value in values:
        slope = tape.gradient(value, variable).numpy()
        assert finite(value, slope) and np.all(slope[~valid] == 0)
    sample = policy.sample(family.noise(tf.random.Generator.from_seed(0), batch))
    chosen = np.take_along_axis(valid, sample.numpy()[..., None], axis=-1)
    assert chosen.all() and finite(policy.log_prob(sample))


def test_samples_have_the_frequencies_asked_for():
    probability = np.array([0.5, 0.0, 0.3, 0.2])
    with np.errstate(divide="ignore"):
        logits = np.log(probability).astype(np.float32)
    family = CategoricalFamily(spaces.Discrete(4))
    policy = family.distribution([tf.constant(np.tile(logits, [SAMPLES, 1]))])
    sample = policy.sample(family.noise(tf.random.Generator.from_seed(0), [SAMPLES])).numpy()
    assert sample.dtype == np.int32
    counts = np.bincount(sample, minlength=4)
    assert counts[1] == 0
    likely = probability > 0
    assert stats.chisquare(counts[likely], SAMPLES * probability[likely]).pvalue > 1e-3


def test_several_choices_are_independent_of_each_other():
    family = MultiCategoricalFamily(spaces.MultiDiscrete([2, 3]))
    logits = np.log([0.3, 0.7, 0.2, 0.5, 0.3]).astype(np.float32)
    policy = family.distribution([tf.constant(np.tile(logits, [SAMPLES, 1]))])
    sample = policy.sample(family.noise(tf.random.Generator.from_seed(0), [SAMPLES])).numpy()
    counts = np.bincount(sample[:, 0] * 3 + sample[:, 1], minlength=6)
    assert stats.chisquare(counts, SAMPLES * np.outer([0.3, 0.7], [0.2, 0.5, 0.3]).ravel()).pvalue > 1e-3


@pytest.mark.parametrize("logits", [[1e4, -1e4, 0.0], [-1e30, 1e30, 0.0], [0.0, -np.inf, 1.0]])
def test_extreme_logits_have_finite_gradients(logits):
    variable = tf.Variable([logits])
    with tf.GradientTape(persistent=True) as tape:
        policy = Categorical(variable)
        best = tf.reduce_sum(policy.log_prob(policy.mode()))
        entropy = tf.reduce_sum(policy.entropy())
        kl = tf.reduce_sum(policy.kl(Categorical(variable)))
    assert finite(best, entropy, kl)
    assert finite(*(tape.gradient(value, variable) for value in (best, entropy, kl)))
    expected = stats.entropy(special.softmax(np.array(logits, np.float64)))
    np.testing.assert_allclose(entropy, expected, atol=1e-6)


def test_gradients_equal_finite_differences():
    logits, reference = np.array([[0.3, -1.0, 2.0]], np.float32), np.array([[1.0, 0.0, -1.0]], np.float32)
    variable = tf.Variable(logits)
    with tf.GradientTape(persistent=True) as tape:
        policy = Categorical(variable)
        values = policy.log_prob(tf.constant([1])), policy.entropy(), Categorical(reference).kl(policy)
    probs = special.softmax(np.float64(reference))
    formulas = (
        lambda logits: special.log_softmax(logits)[0, 1],
        lambda logits: stats.entropy(special.softmax(logits)[0]),
        lambda logits: stats.entropy(probs[0], special.softmax(logits)[0]),
    )
    for value, formula in zip(values, formulas, strict=True):
        steps = 1e-5 * np.eye(3)[:, None]
        slopes = [(formula(np.float64(logits) + step) - formula(np.float64(logits) - step)) / 2e-5 for step in steps]
        np.testing.assert_allclose(tape.gradient(value, variable)[0], slopes, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_actions_begin_where_the_space_does(dtype):
    space = spaces.Discrete(3, start=-1, dtype=dtype)
    action = CategoricalFamily(space).to_environment(tf.constant([0, 1, 2]))
    assert action.dtype == dtype
    np.testing.assert_array_equal(action, [-1, 0, 1])


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_choices_get_the_spaces_shape_type_and_start(dtype, shape):
    space = spaces.MultiDiscrete(np.reshape([2, 3, 1, 4], shape), dtype, start=np.reshape([5, 0, 3, 1], shape))
    action = MultiCategoricalFamily(space).to_environment(tf.constant([[0, 0, 0, 0], [1, 2, 0, 3]])).numpy()
    assert action.dtype == dtype and all(space.contains(one) for one in action)
    np.testing.assert_array_equal(action.reshape(2, 4), [[5, 0, 3, 1], [6, 2, 3, 4]])


def test_also_without_numbers_actions_are_within_the_space():
    space = spaces.MultiDiscrete([2, 3])
    family = MultiCategoricalFamily(space)
    policy = family.distribution([tf.fill([4, 5], np.nan)])
    noise = family.noise(tf.random.Generator.from_seed(0), [4])
    for sample in (policy.mode(), policy.sample(noise)):
        assert all(space.contains(one) for one in family.to_environment(sample).numpy())
