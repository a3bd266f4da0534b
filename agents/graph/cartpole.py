"""Cart-pole: balance a pole on a cart by pushing the cart to the left or right."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.graph.tensor_env import TensorEnv, Uniform

State = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]

_GRAVITY = 9.8
_POLE_MASS, _TOTAL_MASS = 0.1, 1.1
_HALF_LENGTH = 0.5  # Of the pole.
_FORCE = 10.0
_TIME_STEP = 0.02  # Seconds.
_MAX_POSITION, _MAX_ANGLE = 2.4, math.radians(12)


class CartPole(TensorEnv):
    """CartPole-v1 as in `gymnasium.envs.classic_control.cartpole`.

    From Barto, Sutton and Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult Learning
    Control Problems" (1983). A state is the position and velocity of the cart, and the angle and
    angular velocity of the pole: float64 [B] each.
    """

    def __init__(self, sutton_barto_reward: bool = False):
        """Initializes the spaces.

        Args:
          sutton_barto_reward: Whether the reward is -1 in the terminal step and 0 before, instead
            of 1 in every step.
        """
        self._sutton_barto_reward = sutton_barto_reward
        high = np.array([2 * _MAX_POSITION, np.inf, 2 * _MAX_ANGLE, np.inf], np.float32)  # [O]
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Discrete(2)

    def initial_state(self, uniform: Uniform) -> State:
        """Returns states close to upright and at rest, [B] each."""
        return tuple(tf.unstack(uniform(-0.05, 0.05, (4,)), axis=1))

    def step(
        self, state: State, action: tf.Tensor, uniform: Uniform
    ) -> tuple[State, tf.Tensor, tf.Tensor]:
        """Pushes left (0) or right (1), [B]; terminates if cart or pole exceed their limits."""
        position, velocity, angle, angular_velocity = state
        force = tf.where(action == 1, tf.constant(_FORCE, tf.float64), -_FORCE)  # [B]
        cos, sin = tf.cos(angle), tf.sin(angle)
        push = (force + _POLE_MASS * _HALF_LENGTH * angular_velocity**2 * sin) / _TOTAL_MASS
        angular_acceleration = (_GRAVITY * sin - cos * push) / (
            _HALF_LENGTH * (4 / 3 - _POLE_MASS * cos**2 / _TOTAL_MASS)
        )
        acceleration = push - _POLE_MASS * _HALF_LENGTH * angular_acceleration * cos / _TOTAL_MASS
        position += _TIME_STEP * velocity
        velocity += _TIME_STEP * acceleration
        angle += _TIME_STEP * angular_velocity
        angular_velocity += _TIME_STEP * angular_acceleration
        terminated = (tf.abs(position) > _MAX_POSITION) | (tf.abs(angle) > _MAX_ANGLE)  # [B]
        reward = (
            -tf.cast(terminated, tf.float32)
            if self._sutton_barto_reward
            else tf.ones_like(position, tf.float32)
        )
        return (position, velocity, angle, angular_velocity), reward, terminated

    def observe(self, state: State) -> tf.Tensor:
        """Returns the state, float32 [B, 4]."""
        return tf.cast(tf.stack(state, axis=1), tf.float32)
