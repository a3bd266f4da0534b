import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special, stats

from agents.distributions.categorical import (
    Categorical,
    ParametricCategorical,
    ParametricMultiCategorical,
)
from tests.distributions.cases import each_of, noise_of, random_mask, random_parameters
from tests.distributions.references import Categories


@each_of("categorical", "multi-categorical")
@pytest.mark.parametrize("dtype", [tf.bool, tf.int8])
def test_masked_categories_have_zero_probability_and_no_gradients(case, dtype):
    parametric, generator = case.make(), np.random.default_rng(0)
    one, two = (random_parameters(parametric, [100], generator) for _ in range(2))
    mask = random_mask(parametric, [100], generator).numpy()
    # A choice without any valid category is not masked.
    sizes = Categories(case.space, [np.zeros([1, parametric.mask_size])]).sizes
    parts = np.split(mask, np.cumsum(sizes)[:-1], axis=-1)
    valid = [np.where(part.any(-1, keepdims=True), part, 1).astype(bool) for part in parts]
    valid = np.concatenate(valid, axis=-1)
    assert (valid != mask).any()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(one)
        distribution = parametric.distribution(one, tf.cast(mask, dtype))
        other = parametric.distribution(two, tf.cast(mask, dtype))
        sample = distribution.sample(noise_of(parametric, [100]))
        values = (
            distribution.log_prob(sample),
            distribution.entropy(),
            distribution.kl(other),
            other.kl(distribution),
        )
    probability = distribution.statistics()["probability"].numpy()
    assert np.all(probability[~valid] == 0)
    reference, reference_of_other = (
        Categories(case.space, [np.float64(logits)], valid) for [logits] in (one, two)
    )
    np.testing.assert_allclose(probability, reference.statistics()["probability"], rtol=1e-4)
    for ours, expected in zip(
        values,
        (
            reference.log_prob(sample.numpy()),
            reference.entropy(),
            reference.kl(reference_of_other),
            reference_of_other.kl(reference),
        ),
        strict=True,
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
        slope = tape.gradient(ours, one[0]).numpy()
        assert np.isfinite(slope).all() and np.all(slope[~valid] == 0)


def test_extreme_logits_have_finite_gradients():
    logits = [[1e4, -1e4, 0.0], [-1e30, 1e30, 0.0], [0.0, -np.inf, 1.0]]
    variable = tf.Variable(logits)
    with tf.GradientTape(persistent=True) as tape:
        distribution = Categorical(variable)
        values = (
            distribution.log_prob(distribution.mode()),
            distribution.entropy(),
            distribution.kl(Categorical(variable)),
        )
    for value in values:
        assert np.isfinite(value).all() and np.isfinite(tape.gradient(value, variable)).all()
    expected = stats.entropy(special.softmax(np.array(logits, np.float64), axis=-1), axis=-1)
    np.testing.assert_allclose(values[1], expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(), (4,), (2, 2)])
def test_actions_have_the_shape_dtype_and_start_of_the_space(dtype, shape):
    if shape:
        start = np.reshape([5, 0, 3, 1], shape)
        space = spaces.MultiDiscrete(np.reshape([2, 3, 1, 4], shape), dtype, start=start)
        parametric, sample = ParametricMultiCategorical(space), [[0, 0, 0, 0], [1, 2, 0, 3]]
        expected = [[5, 0, 3, 1], [6, 2, 3, 4]]
    else:
        space = spaces.Discrete(3, start=7, dtype=dtype)
        parametric, sample, expected = ParametricCategorical(space), [0, 1, 2], [7, 8, 9]
    action = parametric.to_environment(tf.constant(sample)).numpy()
    assert action.dtype == dtype and all(space.contains(one) for one in action)
    np.testing.assert_array_equal(action.reshape(np.shape(expected)), expected)
