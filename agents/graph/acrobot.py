"""Acrobot: swing the tip of a two-link arm above a line by the torque of its middle joint."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.graph.tensor_env import TensorEnv, Uniform

State = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]

_GRAVITY = 9.8
_TIME_STEP = 0.2  # Seconds.
_MAX_SPEEDS = 4 * math.pi, 9 * math.pi


class Acrobot(TensorEnv):
    """Acrobot-v1 as in `gymnasium.envs.classic_control.acrobot`.

    With the dynamics of Sutton and Barto, "Reinforcement Learning: An Introduction": links of
    length 1, mass 1 and moment of inertia 1. A state is the angle of the first link, 0 being
    downwards, the angle of the second link relative to the first, and their angular velocities:
    float64 [B] each.
    """

    def __init__(self) -> None:
        """Initializes the spaces."""
        high = np.array([1.0, 1.0, 1.0, 1.0, *_MAX_SPEEDS], np.float32)  # [O]
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, uniform: Uniform) -> State:
        """Returns states close to hanging down and at rest, [B] each."""
        return tuple(tf.unstack(uniform(-0.1, 0.1, (4,)), axis=1))

    def step(
        self, state: State, action: tf.Tensor, uniform: Uniform
    ) -> tuple[State, tf.Tensor, tf.Tensor]:
        """Applies a torque of -1, 0 or 1 (0, 1, 2), [B]; every step but the terminal one costs 1.

        The episode terminates once the tip is above the line, a link's length above the base.
        """
        torque = tf.cast(action, tf.float64) - 1.0  # [B]
        next_state = _runge_kutta(lambda state: _derivatives(state, torque), state, _TIME_STEP)
        angles = [angle - 2 * math.pi * tf.round(angle / (2 * math.pi)) for angle in next_state[:2]]
        speeds = [
            tf.clip_by_value(speed, -limit, limit)
            for speed, limit in zip(next_state[2:], _MAX_SPEEDS, strict=True)
        ]
        terminated = -tf.cos(angles[0]) - tf.cos(angles[0] + angles[1]) > 1.0  # [B]
        return (*angles, *speeds), tf.where(terminated, 0.0, -1.0), terminated

    def observe(self, state: State) -> tf.Tensor:
        """Returns cosine and sine of both angles, and both velocities, float32 [B, 6]."""
        first, second, *speeds = state
        observ = [tf.cos(first), tf.sin(first), tf.cos(second), tf.sin(second), *speeds]
        return tf.cast(tf.stack(observ, axis=1), tf.float32)


def _derivatives(state: State, torque: tf.Tensor) -> State:
    """Returns the angular velocities and accelerations of both links, [B] each."""
    first, second, first_speed, second_speed = state
    cos, sin = tf.cos(second), tf.sin(second)
    d1 = 3.5 + cos  # Symbols as in the book.
    d2 = 1.25 + 0.5 * cos
    phi2 = 0.5 * _GRAVITY * tf.sin(first + second)
    phi1 = (
        -0.5 * second_speed**2 * sin
        - second_speed * first_speed * sin
        + 1.5 * _GRAVITY * tf.sin(first)
        + phi2
    )
    second_acceleration = (torque + d2 / d1 * phi1 - 0.5 * first_speed**2 * sin - phi2) / (
        1.25 - d2**2 / d1
    )
    first_acceleration = -(d2 * second_acceleration + phi1) / d1
    return first_speed, second_speed, first_acceleration, second_acceleration


def _runge_kutta(derivatives: Callable[[State], State], state: State, duration: float) -> State:
    """Integrates the state, [B] each, over one step of the classic fourth-order method."""

    def advance(time: float, slopes: State) -> State:
        return tuple(value + time * slope for value, slope in zip(state, slopes, strict=True))

    first = derivatives(state)
    second = derivatives(advance(duration / 2, first))
    third = derivatives(advance(duration / 2, second))
    fourth = derivatives(advance(duration, third))
    slopes = (
        a + 2 * b + 2 * c + d for a, b, c, d in zip(first, second, third, fourth, strict=True)
    )
    return advance(duration / 6, tuple(slopes))
