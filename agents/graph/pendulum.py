"""Pendulum: swing up a pendulum and balance it upright."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.graph.tensor_env import TensorEnv, Uniform

State = tuple[tf.Tensor, tf.Tensor]

_MAX_TORQUE, _MAX_SPEED = 2.0, 8.0
_TIME_STEP = 0.05  # Seconds.


class Pendulum(TensorEnv):
    """Pendulum-v1 as in `gymnasium.envs.classic_control.pendulum`, with unit mass and length.

    A state is the angle in radians, 0 being upright, and the angular velocity: float64 [B] each.
    """

    def __init__(self, g: float = 10.0):
        """Initializes the spaces.

        Args:
          g: Gravitational acceleration in m / s^2.
        """
        self._gravity = g
        high = np.array([1.0, 1.0, _MAX_SPEED], np.float32)  # [O]
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Box(-_MAX_TORQUE, _MAX_TORQUE, (1,))

    def initial_state(self, uniform: Uniform) -> State:
        """Returns states of any angle and a low angular velocity, [B] each."""
        return uniform(-math.pi, math.pi), uniform(-1.0, 1.0)

    def step(
        self, state: State, action: tf.Tensor, uniform: Uniform
    ) -> tuple[State, tf.Tensor, tf.Tensor]:
        """Applies a torque [B, 1]; penalizes angle, speed and torque; never terminates."""
        angle, speed = state
        torque = tf.clip_by_value(action[:, 0], -_MAX_TORQUE, _MAX_TORQUE)  # [B]
        torque = tf.cast(torque, tf.float64)
        wrapped_angle = tf.math.floormod(angle + math.pi, 2 * math.pi) - math.pi
        cost = wrapped_angle**2 + 0.1 * speed**2 + 0.001 * torque**2  # [B]
        speed += (1.5 * self._gravity * tf.sin(angle) + 3.0 * torque) * _TIME_STEP
        speed = tf.clip_by_value(speed, -_MAX_SPEED, _MAX_SPEED)
        angle += speed * _TIME_STEP
        return (angle, speed), -cost, tf.zeros_like(cost, tf.bool)

    def observe(self, state: State) -> tf.Tensor:
        """Returns cosine and sine of the angle, and the angular velocity, float32 [B, 3]."""
        angle, speed = state
        return tf.cast(tf.stack([tf.cos(angle), tf.sin(angle), speed], axis=1), tf.float32)
