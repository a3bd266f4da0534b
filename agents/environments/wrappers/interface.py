"""Types of the results of `step` and `reset`, and checks of wrappers' arguments."""

from __future__ import annotations

from typing import SupportsFloat, TypeAlias

import numpy as np
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError
from agents.types import Env, Info, NestedArray

# Observation [...], reward [], terminated, truncated, info.
Step: TypeAlias = tuple[NestedArray, SupportsFloat, bool, bool, Info]

# Observation [...], info.
Reset: TypeAlias = tuple[NestedArray, Info]


def whole_number(name: str, value: object, minimum: int) -> int:
    """Returns an argument as an int.

    Args:
      name: The wrapper and its argument, for the message.
      value: The argument.
      minimum: Its smallest valid value.

    Raises:
      ValueError: The value is not a whole number of at least `minimum`; booleans are not.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return int(value)


def box_observation_space(wrapper: str, env: Env) -> spaces.Box:
    """Returns the observation space of an environment.

    Args:
      wrapper: The wrapper's name, for the message.
      env: The environment to wrap.

    Raises:
      UnsupportedSpaceError: The observation space is not a Box.
    """
    if not isinstance(env.observation_space, spaces.Box):
        raise UnsupportedSpaceError(
            f"{wrapper} needs an environment that observes a Box, got {env.observation_space}"
        )
    return env.observation_space
