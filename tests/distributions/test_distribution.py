"""Conformance of every distribution to the protocol."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from agents.distributions.distribution import Distribution
from tests.distributions.cases import every_distribution, make, random_mask, random_parameters

METHODS = ("sample", "mode", "log_prob", "entropy", "kl", "statistics")

every_batch_shape = pytest.mark.parametrize("batch_shape", [[5], [3, 4]], ids=str)


def make_distributions(space, policy, batch_shape, masked=False):
    """Two batches of distributions, and noise for samples of them."""
    parametric, generator = make(space, policy), np.random.default_rng(0)
    mask = random_mask(parametric, batch_shape, generator) if masked else None
    distribution, other = (
        parametric.distribution(random_parameters(parametric, batch_shape, generator), mask)
        for _ in range(2)
    )
    noise = parametric.noise(tf.random.Generator.from_seed(0), batch_shape)
    return distribution, other, noise


def test_the_protocol_has_these_methods():
    public = [name for name in vars(Distribution) if not name.startswith("_")]
    assert sorted(public) == sorted(METHODS)


@every_distribution
def test_has_the_methods_of_the_protocol(space, policy, kind):
    distribution, *_ = make_distributions(space, policy, [5])
    for name in METHODS:
        expected = inspect.signature(getattr(Distribution, name)).parameters
        assert list(inspect.signature(getattr(type(distribution), name)).parameters) == list(
            expected
        )


@every_distribution
@every_batch_shape
def test_scalars_are_float32_of_the_batch_shape(space, policy, kind, batch_shape):
    distribution, other, noise = make_distributions(space, policy, batch_shape)
    sample = distribution.sample(noise)
    for scalar in (distribution.log_prob(sample), distribution.entropy(), distribution.kl(other)):
        assert scalar.shape == tuple(batch_shape) and scalar.dtype == tf.float32
        assert np.isfinite(scalar).all()


@every_distribution
@every_batch_shape
def test_mode_has_the_structure_shapes_and_types_of_samples(space, policy, kind, batch_shape):
    distribution, _, noise = make_distributions(space, policy, batch_shape)
    sample, mode = distribution.sample(noise), distribution.mode()
    tf.nest.assert_same_structure(sample, mode)
    for one, other in zip(tf.nest.flatten(sample), tf.nest.flatten(mode), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert one.shape[: len(batch_shape)] == tuple(batch_shape)


@every_distribution
@every_batch_shape
def test_statistics_are_tensors_by_name(space, policy, kind, batch_shape):
    statistics = make_distributions(space, policy, batch_shape)[0].statistics()
    assert any(name.startswith("mode") for name in statistics)
    for name, tensor in statistics.items():
        assert isinstance(name, str)
        assert tensor.shape[: len(batch_shape)] == tuple(batch_shape)
        assert np.isfinite(tensor).all()


@every_distribution
@pytest.mark.parametrize("masked", [False, True])
def test_divergence_is_zero_from_itself_and_positive_otherwise(space, policy, kind, masked):
    distribution, other, _ = make_distributions(space, policy, [50], masked)
    np.testing.assert_allclose(distribution.kl(distribution), np.zeros(50), atol=1e-6)
    divergence = distribution.kl(other).numpy()
    assert np.isfinite(divergence).all() and divergence.min() > -1e-6 and divergence.max() > 0.1


@every_distribution
def test_rows_are_independent_of_each_other(space, policy, kind):
    parametric, generator = make(space, policy), np.random.default_rng(0)
    parameters = random_parameters(parametric, [5], generator)
    noise = parametric.noise(tf.random.Generator.from_seed(0), [5])
    part = [
        tensor if parameter.independent else tensor[2:4]
        for tensor, parameter in zip(parameters, parametric.parameters, strict=True)
    ]
    whole_batch, rows = parametric.distribution(parameters), parametric.distribution(part)
    sample, sample_of_rows = whole_batch.sample(noise), rows.sample(noise[2:4])
    for one, other in zip(tf.nest.flatten(sample), tf.nest.flatten(sample_of_rows), strict=True):
        np.testing.assert_allclose(one[2:4], other, rtol=1e-5, atol=1e-6)
    for one, other in (
        (whole_batch.log_prob(sample), rows.log_prob(sample_of_rows)),
        (whole_batch.entropy(), rows.entropy()),
    ):
        np.testing.assert_allclose(one[2:4], other, rtol=1e-5, atol=1e-6)
