import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.config import load_config
from agents.distributions.bernoulli import BernoulliFamily
from agents.distributions.beta import BetaFamily
from agents.distributions.categorical import CategoricalFamily, MultiCategoricalFamily
from agents.distributions.gaussian import GaussianFamily
from agents.distributions.joint import JointFamily
from agents.distributions.make_family import make_family
from agents.distributions.squashed_gaussian import SquashedGaussianFamily
from agents.tools.errors import UnsupportedSpaceError

BOX = spaces.Box(-2, 3, (2,), np.float32)
FAMILIES = [
    (BOX, "gaussian", GaussianFamily),
    (BOX, "squashed_gaussian", SquashedGaussianFamily),
    (BOX, "beta", BetaFamily),
    (spaces.Discrete(3), "beta", CategoricalFamily),
    (spaces.MultiDiscrete([2, 3]), "gaussian", MultiCategoricalFamily),
    (spaces.MultiBinary(3), "gaussian", BernoulliFamily),
    (spaces.Dict(a=spaces.Tuple([spaces.Discrete(2)]), b=BOX), "squashed_gaussian", JointFamily),
]


def evaluate(family, noise, parameters, others, mask):
    """All that distributions can do, and gradients by all parameters."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(parameters)
        policy, other = family.distribution(parameters, mask), family.distribution(others, mask)
        sample = tf.nest.map_structure(tf.stop_gradient, policy.sample(noise))
        values = policy.log_prob(sample), policy.entropy(), other.kl(policy)
    gradients = [tape.gradient(value, parameters, unconnected_gradients="zero") for value in values]
    return sample, policy.mode(), family.to_environment(sample), values, gradients, policy.statistics()


@pytest.mark.parametrize(("space", "policy", "kind"), FAMILIES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_compiled_family_gives_the_same_as_an_eager_one(space, policy, kind):
    family = make_family(space, load_config("default", policy=policy))
    assert isinstance(family, kind)
    random = np.random.default_rng(0)
    parameters, others = (
        [
            tf.constant(random.normal(size=([] if one.independent else [5]) + [one.size]), tf.float32)
            for one in family.parameters
        ]
        for _ in range(2)
    )
    noise = family.noise(tf.random.Generator.from_seed(0), [5])
    assert noise.shape == (5, family.noise_size) and noise.dtype == tf.float32
    mask = tf.constant(random.integers(0, 2, [5, family.mask_size]), tf.int8) if family.mask_size else None
    compiled = tf.function(evaluate, jit_compile=True, autograph=False)
    for ours, eager in zip(
        tf.nest.flatten(compiled(family, noise, parameters, others, mask)),
        tf.nest.flatten(evaluate(family, noise, parameters, others, mask)),
        strict=True,
    ):
        assert np.isfinite(ours).all()
        assert ours.dtype == eager.dtype
        np.testing.assert_allclose(ours, eager, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("space", "policy", "kind"), FAMILIES, ids=lambda value: getattr(value, "__name__", ""))
def test_samples_depend_on_the_generator_alone(space, policy, kind):
    family = make_family(space, load_config("default", policy=policy))
    same = [tf.zeros([50, parameter.size]) for parameter in family.parameters]
    one, two, other = (
        tf.nest.flatten(family.distribution(same).sample(family.noise(tf.random.Generator.from_seed(seed), [50])))
        for seed in (1, 1, 2)
    )
    for first, again, different in zip(one, two, other, strict=True):
        np.testing.assert_array_equal(first, again)
        assert np.any(first != different)


def test_the_configuration_decides_on_the_deviation():
    config = load_config("default", state_dependent_std=True, initial_log_std=-0.5)
    for policy in ("gaussian", "squashed_gaussian"):
        mean, log_std = make_family(BOX, config.model_copy(update={"policy": policy})).parameters
        assert (mean.initial, mean.independent) == (0, False)
        assert (log_std.initial, log_std.independent) == (-0.5, False)


@pytest.mark.parametrize("shape", [(), (1,), (8,), (2, 3)])
def test_noise_is_as_long_in_all_dimensions_where_its_deviation_is_divided(shape):
    config = load_config("default", initial_log_std=-0.5, divide_initial_std=True)
    _, log_std = make_family(spaces.Box(-1, 1, shape), config).parameters
    assert log_std.size * np.exp(log_std.initial) ** 2 == pytest.approx(np.exp(-0.5) ** 2)


@pytest.mark.parametrize("policy", ["squashed_gaussian", "beta"])
@pytest.mark.parametrize(
    "space", [spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(np.zeros(2), np.array([1, np.inf]), dtype=np.float64)]
)
def test_policies_within_bounds_need_bounds(policy, space):
    for whole in (space, spaces.Dict(a=spaces.Discrete(2), b=space)):
        with pytest.raises(UnsupportedSpaceError) as caught:
            make_family(whole, load_config("default", policy=policy))
        assert str(space) in str(caught.value) and policy in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 3
        make_family(whole, load_config("default"))


@pytest.mark.parametrize("space", [spaces.Box(0, 9, (2,), np.int32), spaces.Text(3)], ids=str)
def test_spaces_without_a_policy_are_named(space):
    with pytest.raises(UnsupportedSpaceError) as caught:
        make_family(space, load_config("default"))
    assert str(space) in str(caught.value)


def test_noise_that_lasts_is_for_gaussian_policies():
    config = load_config("default", noise_correlation=0.5)
    assert isinstance(make_family(BOX, config), GaussianFamily)
    with pytest.raises(UnsupportedSpaceError, match="noise_correlation"):
        make_family(spaces.Dict(a=BOX, b=spaces.Discrete(2)), config)
    with pytest.raises(UnsupportedSpaceError, match="beta"):
        make_family(BOX, load_config("default", noise_correlation=0.5, policy="beta"))
