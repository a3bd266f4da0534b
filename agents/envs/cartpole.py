"""Balance a pole on a cart that is pushed left or right."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.envs.random_numbers import Uniform
from agents.envs.tensor_env import TensorEnv

State = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]

_GRAVITY = 9.8
_POLE_MASS, _TOTAL_MASS = 0.1, 1.1
_HALF_LENGTH = 0.5  # Of the pole.
_FORCE = 10.0
_TIME_STEP = 0.02  # Seconds.
_MAX_PLACE, _MAX_ANGLE = 2.4, math.radians(12)


class CartPole(TensorEnv):
    """CartPole-v1 as in Gymnasium, `gymnasium.envs.classic_control.cartpole`.

    From Barto, Sutton and Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult Learning Control Problems"
    (1983). A state is the cart's place and velocity, and the pole's angle and its velocity: float64 [B] each.
    """

    def __init__(self, sutton_barto_reward: bool = False):
        """Takes whether rewards are 0 and, where the pole falls, -1; otherwise every step gives 1."""
        self._sutton_barto_reward = sutton_barto_reward
        high = np.array([2 * _MAX_PLACE, np.inf, 2 * _MAX_ANGLE, np.inf], np.float32)
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Discrete(2)

    def initial_state(self, uniform: Uniform) -> State:
        """Almost upright, almost still."""
        return tuple(tf.unstack(uniform(-0.05, 0.05, (4,)), axis=1))

    def step(self, state: State, action: tf.Tensor, uniform: Uniform) -> tuple[State, tf.Tensor, tf.Tensor]:
        """Pushes to the left (0) or to the right (1), [B]; the episode ends where cart or pole are too far off."""
        place, velocity, angle, spin = state
        force = tf.where(action == 1, tf.constant(_FORCE, tf.float64), -_FORCE)
        cos, sin = tf.cos(angle), tf.sin(angle)
        push = (force + _POLE_MASS * _HALF_LENGTH * spin**2 * sin) / _TOTAL_MASS
        spin_change = (_GRAVITY * sin - cos * push) / (_HALF_LENGTH * (4 / 3 - _POLE_MASS * cos**2 / _TOTAL_MASS))
        acceleration = push - _POLE_MASS * _HALF_LENGTH * spin_change * cos / _TOTAL_MASS
        place += _TIME_STEP * velocity
        velocity += _TIME_STEP * acceleration
        angle += _TIME_STEP * spin
        spin += _TIME_STEP * spin_change
        fallen = (tf.abs(place) > _MAX_PLACE) | (tf.abs(angle) > _MAX_ANGLE)
        reward = -tf.cast(fallen, tf.float32) if self._sutton_barto_reward else tf.ones_like(place, tf.float32)
        return (place, velocity, angle, spin), reward, fallen

    def observe(self, state: State) -> tf.Tensor:
        """The state, [B, 4]."""
        return tf.cast(tf.stack(state, axis=1), tf.float32)
