"""Construction of the parametric distribution for an action space."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.bernoulli import ParametricBernoulli
from agents.distributions.beta import ParametricBeta
from agents.distributions.categorical import ParametricCategorical, ParametricMultiCategorical
from agents.distributions.gaussian import ParametricGaussian
from agents.distributions.joint import ParametricJoint
from agents.distributions.parametric_distribution import ParametricDistribution
from agents.distributions.squashed_gaussian import ParametricSquashedGaussian
from agents.environments.action_bounds import center_and_scale, far_from_unit
from agents.errors import UnsupportedSpaceError, UsageError
from agents.settings.config import Config
from agents.settings.entry_points import call, load_function
from agents.spaces import check_action_space, check_policy, leaf_spaces
from agents.types import NestedTensor, Space

_INTERFACE = ("parameters", "noise_size", "mask_size", "distribution", "noise", "to_environment")
_METHODS = ("sample", "mode", "log_prob", "entropy", "statistics")  # The divergence is optional.


def make_action_distribution(space: Space, config: Config) -> ParametricDistribution:
    """Creates the parametric distribution over the elements of an action space.

    Args:
      space: Box of floats, Discrete, MultiDiscrete, MultiBinary, or Dict or Tuple of those, nested
        or not.
      config: `policy`, `state_dependent_std`, `initial_log_std`, `divide_initial_std` and
        `scale_actions` determine the distribution over a Box; `noise_correlation` requires
        Gaussian noise. If `policy` is an entry point, its function makes the distribution from Box and configuration.

    Raises:
      UsageError: The function of the user failed, or returned something else.
      UnsupportedSpaceError: No distribution, or not the configured policy, supports the space; the
        message names the space.
    """
    check_action_space(space)
    check_policy(space, config.policy)
    distributions = [_leaf_distribution(leaf, config) for leaf in leaf_spaces(space)]
    # A user's subclass may have other noise; correlated noise is standard normal.
    is_normal = [
        getattr(type(one), "noise", None) is ParametricGaussian.noise for one in distributions
    ]
    if config.noise_correlation and not all(is_normal):
        raise UnsupportedSpaceError(
            f"noise_correlation needs Gaussian policies, got policy '{config.policy}' and the action space {space}.\n"
            "Set it to 0."
        )
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return ParametricJoint(space, distributions)
    return distributions[0]


def _leaf_distribution(
    space: spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary, config: Config
) -> ParametricDistribution:
    if isinstance(space, spaces.Discrete):
        return ParametricCategorical(space)
    if isinstance(space, spaces.MultiDiscrete):
        return ParametricMultiCategorical(space)
    if isinstance(space, spaces.MultiBinary):
        return ParametricBernoulli(space)
    if ":" in config.policy:
        place = f"policy '{config.policy}'"
        made: ParametricDistribution
        made = call(load_function(config.policy, "policy"), place, space, config)
        missing = [name for name in _INTERFACE if not hasattr(made, name)]
        if missing:
            raise UsageError(
                f"{place}: expected a ParametricDistribution, got {type(made).__name__} without "
                f"{', '.join(missing)}"
            )
        call(_check_distribution, place, place, made, config.objective)
        return made
    if config.policy == "beta":
        return ParametricBeta(space)
    # The mean squared norm of the noise is then the same for any number of dimensions.
    dimensions = math.prod(space.shape) if config.divide_initial_std else 1
    log_std = config.initial_log_std - 0.5 * math.log(dimensions)
    if config.policy == "squashed_gaussian":
        return ParametricSquashedGaussian(space, log_std, config.state_dependent_std)
    scaled = scaled_dimensions(space, config.scale_actions)
    return ParametricGaussian(space, log_std, config.state_dependent_std, scaled)


def _check_distribution(place: str, parametric: ParametricDistribution, objective: str) -> None:
    """Evaluates a user's distributions, two at a time, in a graph as training does.

    Raises:
      UsageError: A method is missing, a result has another shape, or samples are not a function of the noise.
    """
    parameters = [
        tf.fill([one.size] if one.independent else [2, one.size], float(one.initial))
        for one in parametric.parameters
    ]
    mask = tf.ones([2, parametric.mask_size], tf.int8) if parametric.mask_size else None
    noise = parametric.noise(tf.random.Generator.from_seed(0), [2])

    def evaluate() -> tuple[NestedTensor, NestedTensor, dict[str, tf.Tensor]]:
        distribution = parametric.distribution(parameters, mask)
        missing = [name for name in _METHODS if not hasattr(distribution, name)]
        if missing:
            raise UsageError(
                f"{place}: expected a Distribution, got {type(distribution).__name__} without {', '.join(missing)}"
            )
        sample, again = distribution.sample(noise), distribution.sample(noise)
        results = {"log_prob": distribution.log_prob(sample), "entropy": distribution.entropy()}
        if objective != "clip":
            results["kl"] = distribution.kl(distribution)
        return sample, again, results

    sample, again, results = tf.function(evaluate, autograph=False)()
    if not np.array_equal(sample, again, equal_nan=True):
        raise UsageError(
            f"{place}: sample(noise) has other results for equal noise\n"
            "draw all random numbers in noise(generator, batch_shape): else runs neither repeat nor resume exactly"
        )
    for name, result in results.items():
        if result.shape != [2]:
            raise UsageError(
                f"{place}: {name} of 2 distributions has the shape {result.shape}, expected (2,)"
            )


def scaled_dimensions(
    space: spaces.Box, scale_actions: Literal["auto", "always", "never"]
) -> np.ndarray:
    """Returns which dimensions of a Gaussian's actions are scaled, bool [*space.shape]."""
    if scale_actions == "auto":
        return far_from_unit(space)
    is_scaled: np.ndarray = np.isfinite(center_and_scale(space)[1]) & (scale_actions == "always")
    return is_scaled
