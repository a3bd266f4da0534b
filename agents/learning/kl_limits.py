"""KL divergences of updates, for actions of any number of dimensions."""

from __future__ import annotations

import math

from agents.settings.config import Config


def multiply_kl_limits(config: Config, action_dimensions: int) -> Config:
    """The settings, with the `kl_stop` and `kl_target` of actions of so many dimensions.

    The KL divergence of independent dimensions is the sum of theirs. With `multiply_kl_stop` and
    `multiply_kl_target`, both grow, but less than that sum: with the root of the dimensions.

    Args:
      config: The experiment's settings.
      action_dimensions: Number of action dimensions.
    """
    factor = math.sqrt(action_dimensions)
    limits: dict[str, float] = {}
    if config.multiply_kl_stop:
        limits |= {"kl_stop": config.kl_stop * factor, "multiply_kl_stop": False}
    if config.multiply_kl_target:
        limits |= {"kl_target": config.kl_target * factor, "multiply_kl_target": False}
    return config.model_copy(update=limits)
