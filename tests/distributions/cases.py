"""Every kind of action distribution, for tests that parametrize over them."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.bernoulli import ParametricBernoulli
from agents.distributions.beta import ParametricBeta
from agents.distributions.categorical import ParametricCategorical, ParametricMultiCategorical
from agents.distributions.factory import make_action_distribution
from agents.distributions.gaussian import ParametricGaussian
from agents.distributions.joint import ParametricJoint
from agents.distributions.squashed_gaussian import ParametricSquashedGaussian
from agents.settings.config_file import load_config

BOX = spaces.Box(-2, 3, (2,), np.float32)
NESTED = spaces.Dict(a=spaces.Tuple([spaces.Discrete(2)]), b=BOX)
CASES = [
    (BOX, "gaussian", ParametricGaussian),
    (BOX, "squashed_gaussian", ParametricSquashedGaussian),
    (BOX, "beta", ParametricBeta),
    (spaces.Discrete(3), "gaussian", ParametricCategorical),
    (spaces.MultiDiscrete([2, 3]), "gaussian", ParametricMultiCategorical),
    (spaces.MultiBinary(3), "gaussian", ParametricBernoulli),
    (NESTED, "squashed_gaussian", ParametricJoint),
]
every_distribution = pytest.mark.parametrize(
    ("space", "policy", "kind"), CASES, ids=lambda value: getattr(value, "__name__", "")
)


def make(space, policy):
    return make_action_distribution(space, load_config("default", policy=policy))


def random_parameters(parametric, batch_shape, generator):
    """Standard normal values for each parameter, [*batch_shape, size] or [size]."""
    return [
        tf.constant(
            generator.normal(size=[*([] if one.independent else batch_shape), one.size]),
            tf.float32,
        )
        for one in parametric.parameters
    ]


def random_mask(parametric, batch_shape, generator):
    """Mask [*batch_shape, mask_size], or None for distributions without masks."""
    if not parametric.mask_size:
        return None
    return tf.constant(generator.integers(0, 2, [*batch_shape, parametric.mask_size]), tf.int8)
