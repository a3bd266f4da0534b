import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.config import load_config
from agents.distributions.action_family import Parameter
from agents.distributions.joint import JointFamily
from agents.distributions.make_family import make_family
from agents.tools.spaces import leaf_spaces

SPACE = spaces.Dict(
    turn=spaces.Box(-1, 1, (2,), np.float64),
    buttons=spaces.Tuple([spaces.MultiDiscrete([3, 2], start=[0, 5]), spaces.Dict(fire=spaces.MultiBinary((2, 1)))]),
    move=spaces.Discrete(3, start=1),
)
CONFIG = load_config("default", initial_log_std=-1.0)
BATCH = [4, 2]


def make():
    """A family for a nested space, those of its leaves, and parameters for the former: all together and by leaf."""
    random = np.random.default_rng(0)
    leaves = [make_family(leaf, CONFIG) for leaf in leaf_spaces(SPACE)]

    def parameters():
        return [
            [
                tf.constant(random.normal(size=([] if one.independent else BATCH) + [one.size]).astype(np.float32))
                for one in leaf.parameters
            ]
            for leaf in leaves
        ]

    return make_family(SPACE, CONFIG), leaves, parameters(), parameters()


def flat(nested):
    return [one for part in nested for one in part]


def test_parameters_are_the_leaves_in_order():
    family = make()[0]
    assert isinstance(family, JointFamily)
    assert family.parameters == (
        Parameter("logits_0", 5),
        Parameter("logits_1", 2),
        Parameter("logits_2", 3),
        Parameter("mean_3", 2),
        Parameter("log_std_3", 2, -1.0, independent=True),
    )
    assert family.noise_size == 5 + 2 + 3 + 2 and family.mask_size == 5 + 3


def test_everything_is_the_sum_of_the_leaves():
    family, leaves, one, two = make()
    policy, other = family.distribution(flat(one)), family.distribution(flat(two))
    parts, others = ([leaf.distribution(p) for leaf, p in zip(leaves, nested, strict=True)] for nested in (one, two))
    noise = family.noise(tf.random.Generator.from_seed(3), BATCH)
    assert noise.shape == (*BATCH, family.noise_size)
    generator = tf.random.Generator.from_seed(3)
    noises = [leaf.noise(generator, BATCH) for leaf in leaves]
    sample = policy.sample(noise)
    for ours, part, own in zip(sample, parts, noises, strict=True):
        np.testing.assert_array_equal(ours, part.sample(own))
    for ours, part in zip(policy.mode(), parts, strict=True):
        np.testing.assert_array_equal(ours, part.mode())
    log_prob = sum(part.log_prob(own).numpy() for part, own in zip(parts, sample, strict=True))
    np.testing.assert_allclose(policy.log_prob(sample), log_prob, rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), sum(part.entropy().numpy() for part in parts), rtol=1e-6)
    kl = sum(part.kl(one).numpy() for part, one in zip(parts, others, strict=True))
    np.testing.assert_allclose(policy.kl(other), kl, rtol=1e-6)
    expected = {f"{name}_{index}" for index, part in enumerate(parts) for name in part.statistics()}
    assert policy.statistics().keys() == expected
    np.testing.assert_array_equal(policy.statistics()["std_3"], parts[3].statistics()["std"])


def test_samples_become_elements_of_the_space():
    family, _, parameters, _ = make()
    policy = family.distribution(flat(parameters))
    for sample in (policy.sample(family.noise(tf.random.Generator.from_seed(0), BATCH)), policy.mode()):
        actions = family.to_environment(sample)
        for row in np.ndindex(*BATCH):
            element = tf.nest.map_structure(lambda leaf, row=row: leaf.numpy()[row], actions)
            assert SPACE.contains(element)


def test_masks_reach_the_leaves_that_have_one():
    family, leaves, parameters, _ = make()
    mask = np.ones([*BATCH, 8], np.int8)
    mask[..., [0, 4, 6, 7]] = 0  # Two of the first choice's three, the second one's last, one of the discrete action's.
    policy = family.distribution(flat(parameters), tf.constant(mask))
    multi, binary, discrete, box = policy.sample(family.noise(tf.random.Generator.from_seed(0), BATCH))
    assert np.all(multi[..., 0] > 0) and np.all(multi[..., 1] == 0) and np.all(discrete == 0)
    probability = policy.statistics()["probability_1"]
    np.testing.assert_array_equal(probability, leaves[1].distribution(parameters[1]).statistics()["probability"])


def test_masks_are_refused_where_no_leaf_has_one():
    family = make_family(spaces.Tuple([spaces.Box(-1, 1, (1,)), spaces.MultiBinary(2)]), CONFIG)
    parameters = [tf.zeros([1, one.size]) for one in family.parameters]
    family.distribution(parameters)
    with pytest.raises(ValueError, match="joint policy takes no action mask"):
        family.distribution(parameters, tf.ones([1, 2], tf.bool))
