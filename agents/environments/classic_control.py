"""Partially observed variants of Gymnasium's classic control, for the setting `env_wrappers`."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation

from agents.types import Env

# Indices of observations that are positions, not velocities.
_POSITIONS = {
    "Pendulum": [0, 1],
    "CartPole": [0, 2],
    "MountainCar": [0],
    "MountainCarContinuous": [0],
}


def hide_velocity(env: Env) -> Env:
    """Removes the velocities from observations [O], which makes the task partially observable.

    Args:
      env: Pendulum, CartPole, MountainCar or MountainCarContinuous.

    Raises:
      ValueError: It is not known which observations of this environment are velocities.
    """
    name = env.spec.name if env.spec else ""
    if name not in _POSITIONS:
        raise ValueError(
            f"hide_velocity: expected one of {', '.join(_POSITIONS)}, got the environment {env}"
        )
    positions, space = _POSITIONS[name], env.observation_space
    assert isinstance(space, spaces.Box)
    low, high = space.low[positions], space.high[positions]  # [positions]
    return TransformObservation(
        env, lambda observ: observ[positions], spaces.Box(low, high, dtype=np.float32)
    )
