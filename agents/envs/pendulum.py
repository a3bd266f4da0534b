"""Swing up a pendulum and keep it upright."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.envs.random_numbers import Uniform
from agents.envs.tensor_env import TensorEnv

State = tuple[tf.Tensor, tf.Tensor]

_MAX_TORQUE, _MAX_SPEED = 2.0, 8.0
_TIME_STEP = 0.05  # Seconds.


class Pendulum(TensorEnv):
    """Pendulum-v1 as in Gymnasium, `gymnasium.envs.classic_control.pendulum`; mass and length are 1.

    A state is the angle, 0 being upright, and its velocity: float64 [B] each.
    """

    def __init__(self, g: float = 10.0):
        """Takes the gravity, in m / s^2."""
        self._gravity = g
        high = np.array([1.0, 1.0, _MAX_SPEED], np.float32)
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Box(-_MAX_TORQUE, _MAX_TORQUE, (1,))

    def initial_state(self, uniform: Uniform) -> State:
        """Any angle, slow."""
        return uniform(-math.pi, math.pi), uniform(-1.0, 1.0)

    def step(self, state: State, action: tf.Tensor, uniform: Uniform) -> tuple[State, tf.Tensor, tf.Tensor]:
        """Applies a torque [B, 1]; the reward is high where the pendulum stands still; no state ends the episode."""
        angle, speed = state
        torque = tf.cast(tf.clip_by_value(action[:, 0], -_MAX_TORQUE, _MAX_TORQUE), tf.float64)
        from_upright = tf.math.floormod(angle + math.pi, 2 * math.pi) - math.pi
        cost = from_upright**2 + 0.1 * speed**2 + 0.001 * torque**2
        speed += (1.5 * self._gravity * tf.sin(angle) + 3.0 * torque) * _TIME_STEP
        speed = tf.clip_by_value(speed, -_MAX_SPEED, _MAX_SPEED)
        angle += speed * _TIME_STEP
        return (angle, speed), -cost, tf.zeros_like(cost, tf.bool)

    def observe(self, state: State) -> tf.Tensor:
        """Cosine and sine of the angle, and its velocity, [B, 3]."""
        angle, speed = state
        return tf.cast(tf.stack([tf.cos(angle), tf.sin(angle), speed], axis=1), tf.float32)
