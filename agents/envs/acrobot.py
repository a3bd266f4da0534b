"""Swing the tip of a two-link arm up to a line, by the torque of the joint in between."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.envs.random_numbers import Uniform
from agents.envs.tensor_env import TensorEnv

State = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]

_GRAVITY = 9.8
_TIME_STEP = 0.2  # Seconds.
_MAX_SPEEDS = 4 * math.pi, 9 * math.pi


class Acrobot(TensorEnv):
    """Acrobot-v1 as in Gymnasium, `gymnasium.envs.classic_control.acrobot`.

    With the dynamics of Sutton and Barto, "Reinforcement Learning: An Introduction": links of length 1, mass 1 and
    moment of inertia 1. A state is the angle of the first link, 0 being downwards, the second link's angle to it, and
    their velocities: float64 [B] each.
    """

    def __init__(self) -> None:
        """Takes no settings."""
        high = np.array([1.0, 1.0, 1.0, 1.0, *_MAX_SPEEDS], np.float32)
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, uniform: Uniform) -> State:
        """Hanging downwards, almost still."""
        return tuple(tf.unstack(uniform(-0.1, 0.1, (4,)), axis=1))

    def step(self, state: State, action: tf.Tensor, uniform: Uniform) -> tuple[State, tf.Tensor, tf.Tensor]:
        """Applies a torque of -1, 0 or 1 (0, 1, 2), [B]; each step costs 1 but the one in which the tip gets there."""
        torque = tf.cast(action, tf.float64) - 1.0
        moved = _runge_kutta(lambda state: _derivatives(state, torque), state, _TIME_STEP)
        angles = [angle - 2 * math.pi * tf.round(angle / (2 * math.pi)) for angle in moved[:2]]
        speeds = [tf.clip_by_value(speed, -most, most) for speed, most in zip(moved[2:], _MAX_SPEEDS, strict=True)]
        there = -tf.cos(angles[0]) - tf.cos(angles[0] + angles[1]) > 1.0
        return (*angles, *speeds), tf.where(there, 0.0, -1.0), there

    def observe(self, state: State) -> tf.Tensor:
        """Cosine and sine of both angles, and their velocities, [B, 6]."""
        first, second, *speeds = state
        return tf.cast(
            tf.stack([tf.cos(first), tf.sin(first), tf.cos(second), tf.sin(second), *speeds], axis=1), tf.float32
        )


def _derivatives(state: State, torque: tf.Tensor) -> State:
    """The velocities and accelerations of both angles, [B] each."""
    first, second, first_speed, second_speed = state
    cos, sin = tf.cos(second), tf.sin(second)
    inertia = 3.5 + cos  # d1 of the book
    coupling = 1.25 + 0.5 * cos  # d2
    second_pull = 0.5 * _GRAVITY * tf.sin(first + second)  # phi2
    first_pull = (  # phi1
        -0.5 * second_speed**2 * sin - second_speed * first_speed * sin + 1.5 * _GRAVITY * tf.sin(first) + second_pull
    )
    second_change = (torque + coupling / inertia * first_pull - 0.5 * first_speed**2 * sin - second_pull) / (
        1.25 - coupling**2 / inertia
    )
    return first_speed, second_speed, -(coupling * second_change + first_pull) / inertia, second_change


def _runge_kutta(derivatives: Callable[[State], State], state: State, duration: float) -> State:
    """The state after some time, by one step of the classic fourth-order method."""

    def after(time: float, slopes: State) -> State:
        return tuple(value + time * slope for value, slope in zip(state, slopes, strict=True))

    first = derivatives(state)
    second = derivatives(after(duration / 2, first))
    third = derivatives(after(duration / 2, second))
    fourth = derivatives(after(duration, third))
    slopes = (a + 2 * b + 2 * c + d for a, b, c, d in zip(first, second, third, fourth, strict=True))
    return after(duration / 6, tuple(slopes))
