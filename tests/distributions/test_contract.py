"""What every kind of distribution satisfies, compared with SciPy where it has it."""

import numpy as np
import pytest
import tensorflow as tf

from agents.deployment.export import ONNX_OPSET
from agents.spaces import leaf_spaces
from tests.distributions.cases import (
    every_case,
    noise_of,
    random_mask,
    random_parameters,
    with_reference,
)

NUM_SAMPLES = 40_000


@every_case
def test_shapes_and_types(case):
    batch_shape, parametric, generator = [3, 4], case.make(), np.random.default_rng(0)
    assert type(parametric) is case.kind
    distribution, other = (
        parametric.distribution(random_parameters(parametric, batch_shape, generator))
        for _ in range(2)
    )
    noise = noise_of(parametric, batch_shape)
    assert noise.shape == (*batch_shape, parametric.noise_size) and noise.dtype == tf.float32
    sample, mode = distribution.sample(noise), distribution.mode()
    for scalar in (distribution.log_prob(sample), distribution.entropy(), distribution.kl(other)):
        assert scalar.shape == tuple(batch_shape) and scalar.dtype == tf.float32
        assert np.isfinite(scalar).all()
    tf.nest.assert_same_structure(sample, mode)
    for one, two in zip(tf.nest.flatten(sample), tf.nest.flatten(mode), strict=True):
        assert one.shape == two.shape and one.dtype == two.dtype
        assert one.shape[: len(batch_shape)] == tuple(batch_shape)
    statistics = distribution.statistics()
    assert any(name.startswith("mode") for name in statistics)
    for tensor in statistics.values():
        assert tensor.shape[: len(batch_shape)] == tuple(batch_shape)
        assert np.isfinite(tensor).all()
    for one in (sample, mode):
        action = parametric.to_environment(one)
        for leaf, space in zip(tf.nest.flatten(action), leaf_spaces(case.space), strict=True):
            assert leaf.shape == (*batch_shape, *space.shape) and leaf.dtype == space.dtype
        for row in np.ndindex(*batch_shape):
            assert case.space.contains(
                tf.nest.map_structure(lambda leaf, row=row: leaf.numpy()[row], action)
            )


@every_case
def test_nan_parameters_give_elements_of_the_space(case):
    parametric = case.make()
    distribution = parametric.distribution(
        [tf.fill([4, parameter.size], np.nan) for parameter in parametric.parameters]
    )
    for sample in (distribution.mode(), distribution.sample(noise_of(parametric, [4]))):
        action = parametric.to_environment(sample)
        for row in range(4):
            assert case.space.contains(
                tf.nest.map_structure(lambda leaf, row=row: leaf.numpy()[row], action)
            )


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


@every_case
def test_compiled_results_equal_eager_ones(case):
    parametric, generator = case.make(), np.random.default_rng(0)
    parameters, others = (random_parameters(parametric, [5], generator) for _ in range(2))
    arguments = noise_of(parametric, [5]), parameters, others
    mask = random_mask(parametric, [5], generator)
    compiled = tf.function(evaluate, jit_compile=True, autograph=False)
    for ours, eager in zip(
        tf.nest.flatten(compiled(parametric, *arguments, mask)),
        tf.nest.flatten(evaluate(parametric, *arguments, mask)),
        strict=True,
    ):
        assert np.isfinite(ours).all() and ours.dtype == eager.dtype
        np.testing.assert_allclose(ours, eager, rtol=1e-4, atol=1e-5)


@every_case
def test_tensorflow_lite_can_compute_modes(case):
    """It has no arithmetic in float64."""
    parametric, generator = case.make(), np.random.default_rng(0)
    parameters = random_parameters(parametric, [5], generator)
    mask = random_mask(parametric, [5], generator)
    mode = tf.function(lambda: parametric.distribution(parameters, mask).mode(), autograph=False)
    operations = mode.get_concrete_function().graph.get_operations()
    types = {one.type for one in operations if tf.float64 in [out.dtype for out in one.outputs]}
    assert types <= {"Cast"}


@every_case
def test_onnx_can_compute_actions(case):
    """It has fewer operations than TensorFlow."""
    onnx, tf2onnx = pytest.importorskip("onnx"), pytest.importorskip("tf2onnx")
    parametric = case.make()
    mask = random_mask(parametric, [5], np.random.default_rng(0))

    def act(*parameters):
        mode = parametric.distribution(parameters, mask).mode()
        return tf.nest.flatten(parametric.to_environment(mode))

    signature = [tf.TensorSpec([5, parameter.size]) for parameter in parametric.parameters]
    function = tf.function(act, input_signature=signature, autograph=False)
    model, _ = tf2onnx.convert.from_function(function, signature, opset=ONNX_OPSET)
    onnx.checker.check_model(model, full_check=True)


@every_case
def test_extreme_distributions_do_not_diverge_from_themselves(case):
    """Their densities are narrow, or highest at a bound, where quadrature is most wrong."""
    parametric, generator = case.make(), np.random.default_rng(0)
    extreme = 1000.0 if case.scale >= 30 else 30.0  # exp(1000) is infinite.
    parameters = [
        tf.clip_by_value(one, -extreme, extreme)
        for one in random_parameters(parametric, [100], generator, extreme)
    ]
    mask = random_mask(parametric, [100], generator)
    distribution, same = (parametric.distribution(parameters, mask) for _ in range(2))
    np.testing.assert_allclose(distribution.kl(same), 0, atol=1e-6)


@every_case
def test_the_divergence_has_its_minimum_where_distributions_are_equal(case):
    """Where an update with a KL penalty begins; a kink there, as of abs, gives wrong gradients."""
    parametric, generator = case.make(), np.random.default_rng(0)
    parameters = random_parameters(parametric, [100], generator, 1.0)
    mask = random_mask(parametric, [100], generator)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        fixed = [tf.stop_gradient(one) for one in parameters]
        kl = parametric.distribution(fixed, mask).kl(parametric.distribution(parameters, mask))
    for slope in tape.gradient(kl, parameters, unconnected_gradients="zero"):
        np.testing.assert_allclose(slope, 0, atol=1e-5)


@every_case
def test_a_mask_is_applied_or_rejected(case):
    parametric = case.make()
    parameters = [tf.zeros([2, parameter.size]) for parameter in parametric.parameters]
    if parametric.mask_size:
        parametric.distribution(parameters, tf.ones([2, parametric.mask_size], tf.bool))
    else:
        with pytest.raises(ValueError, match="policy takes no action mask"):
            parametric.distribution(parameters, tf.ones([2, 1], tf.bool))


# Compared with SciPy, in float64.


def reference_of(case, parameters):
    return case.reference(case.space, [np.float64(one) for one in parameters])


@with_reference
@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_equals_scipy(case, scale):
    parametric, generator = case.make(), np.random.default_rng(0)
    one, two = (random_parameters(parametric, [20], generator, scale) for _ in range(2))
    distribution, other = parametric.distribution(one), parametric.distribution(two)
    sample = distribution.sample(noise_of(parametric, [20]))
    reference, other_reference = reference_of(case, one), reference_of(case, two)
    expected = sample.numpy()
    expected = np.float64(expected) if expected.dtype.kind == "f" else expected
    for name, ours, theirs in [
        ("log_prob", distribution.log_prob(sample), reference.log_prob(expected)),
        ("entropy", distribution.entropy(), reference.entropy()),
        ("kl", distribution.kl(other), reference.kl(other_reference)),
    ]:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5, err_msg=name)
    statistics = distribution.statistics()
    np.testing.assert_array_equal(statistics["mode"], distribution.mode())
    for name, theirs in reference.statistics().items():
        np.testing.assert_allclose(statistics[name], theirs, rtol=1e-4, atol=1e-6, err_msg=name)
    log_probs = distribution.log_prob(distribution.mode()), distribution.log_prob(sample)
    assert "squashed" in case.policy or np.all(log_probs[0] >= log_probs[1] - 1e-5)


@with_reference
@pytest.mark.parametrize("scale", [3.0, 30.0])
def test_gradients_equal_finite_differences(case, scale):
    if scale > case.scale:
        pytest.skip(f"parameters of up to {case.scale:g}")
    parametric, generator = case.make(), np.random.default_rng(1)
    start, others = (random_parameters(parametric, [3], generator, scale) for _ in range(2))
    sample = parametric.distribution(start).sample(noise_of(parametric, [3]))
    fixed, fixed_reference = parametric.distribution(others), reference_of(case, others)
    at = sample.numpy()
    at = np.float64(at) if at.dtype.kind == "f" else at
    values = {
        "log_prob": (lambda one: one.log_prob(sample), lambda one: one.log_prob(at)),
        "entropy": (lambda one: one.entropy(), lambda one: one.entropy()),
        "kl": (lambda one: fixed.kl(one), lambda one: fixed_reference.kl(one)),
    }
    for name, (ours, theirs) in values.items():
        with tf.GradientTape() as tape:
            tape.watch(start)
            total = tf.reduce_sum(ours(parametric.distribution(start)))
        for index, slope in enumerate(tape.gradient(total, start, unconnected_gradients="zero")):
            expected = np.zeros(slope.shape)
            for place in np.ndindex(*slope.shape):
                ends = []
                for step in (1e-4, -1e-4):
                    moved = [np.float64(one) for one in start]
                    moved[index][place] += step
                    ends.append(theirs(case.reference(case.space, moved)).sum())
                expected[place] = (ends[0] - ends[1]) / 2e-4
            np.testing.assert_allclose(slope, expected, rtol=1e-3, atol=1e-4, err_msg=name)


@with_reference
def test_samples_are_independent_and_have_the_distribution_of_scipy(case):
    parametric = case.make()
    row = random_parameters(parametric, [1], np.random.default_rng(5))
    parameters = [
        one if one.shape.rank == 1 else tf.repeat(one, NUM_SAMPLES, axis=0) for one in row
    ]
    noise = noise_of(parametric, [NUM_SAMPLES])
    sample = parametric.distribution(parameters).sample(noise).numpy()
    assert min(reference_of(case, row).p_values(sample)) > 1e-3
    if sample.ndim > 1 and sample.dtype.kind == "f":
        correlations = np.corrcoef(sample.T) - np.eye(sample.shape[1])
        assert np.abs(correlations).max() < 5 / np.sqrt(NUM_SAMPLES)
