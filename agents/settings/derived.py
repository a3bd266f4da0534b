"""Values derived from settings: sequences, minibatches, devices."""

from __future__ import annotations

import math
from typing import Literal

from agents.settings.config import Config

# Layers of so many units take long enough for `device: auto` to use a GPU.
_UNITS_FOR_GPU = 512


def device_of(config: Config) -> Literal["cpu", "gpu", "any"]:
    """Returns the device of an experiment; "any" is a GPU if there is one."""
    if config.device != "auto":
        return config.device
    is_large = max((*config.layers, *config.value_layers), default=0) >= _UNITS_FOR_GPU
    uses_gpu = config.env_backend == "tf" or config.network != "feed_forward" or is_large
    return "any" if uses_gpu else "cpu"


def sequence_length(config: Config) -> int:
    """Returns the length L of the sequences for a recurrent network, in steps.

    It divides rollouts and minibatches; the default is the greatest common divisor of their lengths.
    """
    return config.sequence_length or math.gcd(config.rollout_length, config.minibatch_size)


def elements_per_minibatch(config: Config) -> int:
    """Returns the number of elements in a minibatch: steps, or sequences of L steps."""
    return config.minibatch_size // (1 if config.recurrent == "none" else sequence_length(config))


def limits_kl(config: Config) -> bool:
    """Returns whether the KL divergence of an update ends it, or adapts the learning rate."""
    return config.kl_stop > 0 or config.learning_rate_schedule == "kl"
