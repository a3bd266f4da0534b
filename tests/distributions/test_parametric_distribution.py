"""Conformance of every parametric distribution to the protocol."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from agents.distributions.parametric_distribution import (
    Parameter,
    ParametricDistribution,
    reject_mask,
)
from agents.spaces import leaf_spaces
from tests.distributions.cases import every_distribution, make, random_mask, random_parameters


def evaluate(parametric, noise, parameters, others, mask):
    """Results of all methods, and gradients by all parameters."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(parameters)
        policy = parametric.distribution(parameters, mask)
        other = parametric.distribution(others, mask)
        sample = tf.nest.map_structure(tf.stop_gradient, policy.sample(noise))
        values = policy.log_prob(sample), policy.entropy(), other.kl(policy)
    gradients = [tape.gradient(value, parameters, unconnected_gradients="zero") for value in values]
    action = parametric.to_environment(sample)
    return sample, policy.mode(), action, values, gradients, policy.statistics()


@every_distribution
def test_has_the_methods_and_attributes_of_the_protocol(space, policy, kind):
    parametric = make(space, policy)
    for name in ("distribution", "noise", "to_environment"):
        expected = inspect.signature(getattr(ParametricDistribution, name)).parameters
        assert list(inspect.signature(getattr(kind, name)).parameters) == list(expected)
    assert isinstance(parametric.parameters, tuple)
    assert all(isinstance(parameter, Parameter) for parameter in parametric.parameters)
    names = [parameter.name for parameter in parametric.parameters]
    assert len(set(names)) == len(names)
    assert all(parameter.size > 0 for parameter in parametric.parameters)
    assert parametric.noise_size > 0 and parametric.mask_size >= 0


@every_distribution
@pytest.mark.parametrize("batch_shape", [[5], [3, 4]], ids=str)
def test_noise_is_float32_and_depends_on_the_generator_only(space, policy, kind, batch_shape):
    parametric = make(space, policy)
    noise, same, other = (
        parametric.noise(tf.random.Generator.from_seed(seed), batch_shape) for seed in (1, 1, 2)
    )
    assert noise.shape == (*batch_shape, parametric.noise_size) and noise.dtype == tf.float32
    np.testing.assert_array_equal(noise, same)
    assert np.all(noise != other)


@every_distribution
def test_samples_depend_on_the_generator_only(space, policy, kind):
    parametric = make(space, policy)
    equal = [tf.zeros([50, parameter.size]) for parameter in parametric.parameters]
    sample, same, other = (
        tf.nest.flatten(
            parametric.distribution(equal).sample(
                parametric.noise(tf.random.Generator.from_seed(seed), [50])
            )
        )
        for seed in (1, 1, 2)
    )
    for first, second, different in zip(sample, same, other, strict=True):
        np.testing.assert_array_equal(first, second)
        assert np.any(first != different)


@every_distribution
@pytest.mark.parametrize("batch_shape", [[5], [3, 4]], ids=str)
def test_samples_and_modes_become_elements_of_the_space(space, policy, kind, batch_shape):
    parametric, generator = make(space, policy), np.random.default_rng(0)
    distribution = parametric.distribution(random_parameters(parametric, batch_shape, generator))
    noise = parametric.noise(tf.random.Generator.from_seed(0), batch_shape)
    for sample in (distribution.sample(noise), distribution.mode()):
        action = parametric.to_environment(sample)
        for leaf, space_of_leaf in zip(tf.nest.flatten(action), leaf_spaces(space), strict=True):
            assert leaf.shape == (*batch_shape, *space_of_leaf.shape)
            assert leaf.dtype == space_of_leaf.dtype
        for row in np.ndindex(*batch_shape):
            element = tf.nest.map_structure(lambda leaf, row=row: leaf.numpy()[row], action)
            assert space.contains(element)


@every_distribution
def test_nan_parameters_give_elements_of_the_space(space, policy, kind):
    parametric = make(space, policy)
    parameters = [tf.fill([4, parameter.size], np.nan) for parameter in parametric.parameters]
    action = parametric.to_environment(parametric.distribution(parameters).mode())
    for row in range(4):
        element = tf.nest.map_structure(lambda leaf, row=row: leaf.numpy()[row], action)
        assert space.contains(element)


@every_distribution
def test_compiled_results_equal_eager_ones(space, policy, kind):
    parametric, generator = make(space, policy), np.random.default_rng(0)
    parameters, others = (random_parameters(parametric, [5], generator) for _ in range(2))
    noise = parametric.noise(tf.random.Generator.from_seed(0), [5])
    mask = random_mask(parametric, [5], generator)
    compiled = tf.function(evaluate, jit_compile=True, autograph=False)
    for ours, eager in zip(
        tf.nest.flatten(compiled(parametric, noise, parameters, others, mask)),
        tf.nest.flatten(evaluate(parametric, noise, parameters, others, mask)),
        strict=True,
    ):
        assert np.isfinite(ours).all()
        assert ours.dtype == eager.dtype
        np.testing.assert_allclose(ours, eager, rtol=1e-4, atol=1e-5)


@every_distribution
def test_a_mask_is_applied_or_rejected(space, policy, kind):
    parametric = make(space, policy)
    parameters = [tf.zeros([2, parameter.size]) for parameter in parametric.parameters]
    if parametric.mask_size:
        parametric.distribution(parameters, tf.ones([2, parametric.mask_size], tf.bool))
    else:
        with pytest.raises(ValueError, match="takes no action mask"):
            parametric.distribution(parameters, tf.ones([2, 1], tf.bool))


def test_reject_mask_accepts_none_and_names_the_kind():
    reject_mask(None, "Beta")
    with pytest.raises(ValueError, match="a Beta policy takes no action mask"):
        reject_mask(tf.ones([1, 1], tf.bool), "Beta")
