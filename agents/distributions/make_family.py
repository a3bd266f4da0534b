"""Which distributions fit which action space."""

from __future__ import annotations

import math
from typing import Any

from gymnasium import spaces

from agents.config import Config
from agents.distributions.action_family import ActionFamily
from agents.distributions.bernoulli import BernoulliFamily
from agents.distributions.beta import BetaFamily
from agents.distributions.categorical import CategoricalFamily, MultiCategoricalFamily
from agents.distributions.gaussian import GaussianFamily
from agents.distributions.joint import JointFamily
from agents.distributions.squashed_gaussian import SquashedGaussianFamily
from agents.tools.errors import UnsupportedSpaceError
from agents.tools.spaces import check_action_space, leaf_spaces

_GAUSSIAN = (GaussianFamily, SquashedGaussianFamily)


def make_family(space: spaces.Space, config: Config) -> ActionFamily:
    """The distributions over the elements of an action space.

    Args:
      space: Box of floats, Discrete, MultiDiscrete, MultiBinary, or Dict or Tuple of those, nested or not.
      config: Its `policy`, `state_dependent_std`, `initial_log_std` and `divide_initial_std` decide on what is over a
        Box; `noise_correlation` takes Gaussian ones.

    Raises:
      UnsupportedSpaceError: There is no policy for the space, or not that of the configuration; the message names it.
    """
    check_action_space(space)
    families = [_leaf_family(leaf, config) for leaf in leaf_spaces(space)]
    if config.noise_correlation and not all(isinstance(family, _GAUSSIAN) for family in families):
        raise UnsupportedSpaceError(
            f"noise_correlation is for Gaussian policies, got policy '{config.policy}' and the action space {space}.\n"
            "Set it to 0."
        )
    return JointFamily(space, families) if isinstance(space, spaces.Dict | spaces.Tuple) else families[0]


def _leaf_family(space: Any, config: Config) -> ActionFamily:
    if isinstance(space, spaces.Discrete):
        return CategoricalFamily(space)
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategoricalFamily(space)
    if isinstance(space, spaces.MultiBinary):
        return BernoulliFamily(space)
    if config.policy == "gaussian":
        return GaussianFamily(space, _initial_log_std(space, config), config.state_dependent_std)
    if not space.is_bounded():
        raise UnsupportedSpaceError(
            f"policy '{config.policy}' needs finite bounds, got the action space {space}.\n"
            "Set policy to 'gaussian', or bound the actions with a wrapper (see env_wrappers)."
        )
    if config.policy == "beta":
        return BetaFamily(space)
    return SquashedGaussianFamily(space, _initial_log_std(space, config), config.state_dependent_std)


def _initial_log_std(space: spaces.Box, config: Config) -> float:
    """Where it is divided, the noise of an action is as long in the mean square, however many dimensions there are."""
    dimensions = math.prod(space.shape) if config.divide_initial_std else 1
    return config.initial_log_std - 0.5 * math.log(dimensions)
