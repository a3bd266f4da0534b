"""Every kind of action distribution, with its reference, for tests that parametrize over them."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import Space, spaces

from agents.distributions.bernoulli import ParametricBernoulli
from agents.distributions.beta import ParametricBeta
from agents.distributions.categorical import ParametricCategorical, ParametricMultiCategorical
from agents.distributions.factory import make_action_distribution
from agents.distributions.gaussian import ParametricGaussian
from agents.distributions.joint import ParametricJoint
from agents.distributions.squashed_gaussian import ParametricSquashedGaussian
from agents.settings.config_file import load_config
from tests.distributions import references

BOX = spaces.Box(-2, 3, (2,), np.float32)
NESTED = spaces.Dict(
    a=spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(3)]),
    b=BOX,
    c=spaces.MultiDiscrete([3, 2], start=[0, 5]),
)


class Case(NamedTuple):
    """A space and a policy, the distribution that they give, and its reference.

    Gradients are tested for parameters of the deviation `scale` at most: exp(30) is too large for a
    standard deviation.
    """

    space: Space
    kind: type
    reference: type | None = None
    policy: str = "gaussian"
    settings: dict = {}
    scale: float = 30.0

    def make(self):
        config = load_config("default", policy=self.policy, **self.settings)
        return make_action_distribution(self.space, config)


CASES = {
    "gaussian": Case(BOX, ParametricGaussian, references.Normal, scale=3.0),
    "dependent": Case(
        BOX,
        ParametricGaussian,
        references.Normal,
        settings={"state_dependent_std": True},
        scale=3.0,
    ),
    "squashed": Case(
        BOX, ParametricSquashedGaussian, references.Squashed, "squashed_gaussian", scale=3.0
    ),
    "beta": Case(BOX, ParametricBeta, references.Beta, "beta"),
    "categorical": Case(spaces.Discrete(3), ParametricCategorical, references.Categories),
    "multi-categorical": Case(
        spaces.MultiDiscrete([2, 1, 3]), ParametricMultiCategorical, references.Categories
    ),
    "bernoulli": Case(spaces.MultiBinary(3), ParametricBernoulli, references.Bits),
    "joint": Case(NESTED, ParametricJoint, policy="squashed_gaussian", scale=3.0),
}


def each_of(*names):
    """Parametrizes a test over cases; their names are the ids."""
    return pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names)


every_case = each_of(*CASES)
with_reference = each_of(*(name for name, case in CASES.items() if case.reference))


def random_parameters(parametric, batch_shape, generator, scale=1.0):
    """Normal values for each parameter, [*batch_shape, size] or [size]."""
    return [
        tf.constant(
            generator.normal(0, scale, [*([] if one.independent else batch_shape), one.size]),
            tf.float32,
        )
        for one in parametric.parameters
    ]


def random_mask(parametric, batch_shape, generator):
    """Mask [*batch_shape, mask_size], or None for distributions without masks."""
    if not parametric.mask_size:
        return None
    return tf.constant(generator.integers(0, 2, [*batch_shape, parametric.mask_size]), tf.int8)


def noise_of(parametric, batch_shape, seed=0):
    return parametric.noise(tf.random.Generator.from_seed(seed), batch_shape)
