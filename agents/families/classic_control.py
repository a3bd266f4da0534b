"""Variants of Gymnasium's classic control, as functions for the setting `env_wrappers`."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation

# Which observations are places, not velocities.
_PLACES = {"Pendulum": [0, 1], "CartPole": [0, 2], "MountainCar": [0], "MountainCarContinuous": [0]}


def hide_velocity(env: gymnasium.Env) -> gymnasium.Env:
    """Leaves the velocities out of what is observed, so that it takes a memory to know them.

    Raises:
      ValueError: Which observations are velocities is not known for this environment.
    """
    name = env.spec.name if env.spec else ""
    if name not in _PLACES:
        raise ValueError(f"hide_velocity: expected one of {', '.join(_PLACES)}, got the environment {env}")
    places, space = _PLACES[name], env.observation_space
    assert isinstance(space, spaces.Box)
    low, high = space.low[places], space.high[places]
    return TransformObservation(env, lambda observ: observ[places], spaces.Box(low, high, dtype=np.float32))
