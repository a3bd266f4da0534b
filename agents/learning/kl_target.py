"""The KL divergence that updates aim at."""

from __future__ import annotations

import math

from agents.settings.config import Config


def with_kl_target(config: Config, action_dimensions: int) -> Config:
    """The settings, with the `kl_target` that `multiply_kl_target` asks for.

    The KL divergence of independent dimensions is the sum of theirs. The target grows, but less
    than that sum: with the root of the dimensions, as the threshold of `make_kl_stop`.

    Args:
      config: The experiment's settings.
      action_dimensions: Number of action dimensions.
    """
    if not config.multiply_kl_target:
        return config
    target = config.kl_target * math.sqrt(action_dimensions)
    return config.model_copy(update={"kl_target": target, "multiply_kl_target": False})
