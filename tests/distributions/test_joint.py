import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.factory import make_action_distribution
from agents.distributions.joint import ParametricJoint
from agents.distributions.parametric_distribution import Parameter
from agents.settings.config_file import load_config
from agents.spaces import leaf_spaces
from tests.distributions.cases import random_parameters

SPACE = spaces.Dict(
    turn=spaces.Box(-1, 1, (2,), np.float64),
    buttons=spaces.Tuple(
        [spaces.MultiDiscrete([3, 2], start=[0, 5]), spaces.Dict(fire=spaces.MultiBinary((2, 1)))]
    ),
    move=spaces.Discrete(3, start=1),
)
CONFIG = load_config("default", initial_log_std=-1.0)
BATCH = [4, 2]


def make():
    """The joint distribution, those of the leaves, and two sets of parameters by leaf."""
    generator = np.random.default_rng(0)
    leaves = [make_action_distribution(leaf, CONFIG) for leaf in leaf_spaces(SPACE)]
    one, two = ([random_parameters(leaf, BATCH, generator) for leaf in leaves] for _ in range(2))
    return make_action_distribution(SPACE, CONFIG), leaves, one, two


def flat(nested):
    return [tensor for parameters in nested for tensor in parameters]


def test_parameters_are_those_of_the_leaves_in_order():
    parametric = make()[0]
    assert isinstance(parametric, ParametricJoint)
    assert parametric.parameters == (
        Parameter("logits_0", 5),
        Parameter("logits_1", 2),
        Parameter("logits_2", 3),
        Parameter("mean_3", 2),
        Parameter("log_std_3", 2, -1.0, independent=True),
    )
    assert parametric.noise_size == 5 + 2 + 3 + 2 and parametric.mask_size == 5 + 3


def test_results_are_sums_over_the_leaves():
    parametric, leaves, one, two = make()
    distribution, other = parametric.distribution(flat(one)), parametric.distribution(flat(two))
    parts, others = (
        [leaf.distribution(p) for leaf, p in zip(leaves, nested, strict=True)]
        for nested in (one, two)
    )
    noise = parametric.noise(tf.random.Generator.from_seed(3), BATCH)
    assert noise.shape == (*BATCH, parametric.noise_size)
    generator = tf.random.Generator.from_seed(3)
    noises = [leaf.noise(generator, BATCH) for leaf in leaves]
    sample = distribution.sample(noise)
    for ours, part, own in zip(sample, parts, noises, strict=True):
        np.testing.assert_array_equal(ours, part.sample(own))
    for ours, part in zip(distribution.mode(), parts, strict=True):
        np.testing.assert_array_equal(ours, part.mode())
    log_prob = sum(part.log_prob(own).numpy() for part, own in zip(parts, sample, strict=True))
    np.testing.assert_allclose(distribution.log_prob(sample), log_prob, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        distribution.entropy(), sum(part.entropy().numpy() for part in parts), rtol=1e-5, atol=1e-6
    )
    kl = sum(part.kl(one).numpy() for part, one in zip(parts, others, strict=True))
    np.testing.assert_allclose(distribution.kl(other), kl, rtol=1e-5, atol=1e-6)
    expected = {f"{name}_{index}" for index, part in enumerate(parts) for name in part.statistics()}
    assert distribution.statistics().keys() == expected
    np.testing.assert_array_equal(distribution.statistics()["std_3"], parts[3].statistics()["std"])


def test_masks_apply_to_the_leaves_that_have_masks():
    parametric, leaves, parameters, _ = make()
    mask = np.ones([*BATCH, 8], np.int8)
    mask[..., [0, 4]] = 0  # A category of each component of the MultiDiscrete space.
    mask[..., [6, 7]] = 0  # All but the first category of the Discrete space.
    distribution = parametric.distribution(flat(parameters), tf.constant(mask))
    multi, binary, discrete, box = distribution.sample(
        parametric.noise(tf.random.Generator.from_seed(0), BATCH)
    )
    assert np.all(multi[..., 0] > 0) and np.all(multi[..., 1] == 0) and np.all(discrete == 0)
    probability = distribution.statistics()["probability_1"]
    np.testing.assert_array_equal(
        probability, leaves[1].distribution(parameters[1]).statistics()["probability"]
    )


def test_masks_are_rejected_if_no_leaf_has_masks():
    parametric = make_action_distribution(
        spaces.Tuple([spaces.Box(-1, 1, (1,)), spaces.MultiBinary(2)]), CONFIG
    )
    parameters = [tf.zeros([1, one.size]) for one in parametric.parameters]
    parametric.distribution(parameters)
    with pytest.raises(ValueError, match="joint policy takes no action mask"):
        parametric.distribution(parameters, tf.ones([1, 2], tf.bool))
