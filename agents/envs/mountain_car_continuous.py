"""Rock a weak car out of a valley."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.envs.random_numbers import Uniform
from agents.envs.tensor_env import TensorEnv

State = tuple[tf.Tensor, tf.Tensor]

_MIN_PLACE, _MAX_PLACE, _GOAL_PLACE = -1.2, 0.6, 0.45
_MAX_SPEED = 0.07
_POWER, _SLOPE = 0.0015, 0.0025


class MountainCarContinuous(TensorEnv):
    """MountainCarContinuous-v0 as in Gymnasium, `gymnasium.envs.classic_control.continuous_mountain_car`.

    From Moore, "Efficient Memory-based Learning for Robot Control" (1990). A state is the car's place and velocity:
    float32 [B] each, since Gymnasium rounds its state to that in every step.
    """

    def __init__(self, goal_velocity: float = 0.0):
        """Takes the velocity that the car must have at the goal."""
        self._goal_velocity = goal_velocity
        low, high = np.array([[_MIN_PLACE, -_MAX_SPEED], [_MAX_PLACE, _MAX_SPEED]], np.float32)
        self.observation_space = spaces.Box(low, high)
        self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def initial_state(self, uniform: Uniform) -> State:
        """Standing at the bottom of the valley."""
        place = tf.cast(uniform(-0.6, -0.4), tf.float32)
        return place, tf.zeros_like(place)

    def step(self, state: State, action: tf.Tensor, uniform: Uniform) -> tuple[State, tf.Tensor, tf.Tensor]:
        """Accelerates, [B, 1], which costs; the goal is worth 100 and ends the episode."""
        place, velocity = state
        force = tf.clip_by_value(action[:, 0], -1.0, 1.0)
        downhill = tf.cast(_SLOPE * tf.cos(tf.cast(3.0 * place, tf.float64)), tf.float32)
        velocity = tf.clip_by_value(velocity + (force * _POWER - downhill), -_MAX_SPEED, _MAX_SPEED)
        place = tf.clip_by_value(place + velocity, _MIN_PLACE, _MAX_PLACE)
        velocity = tf.where((place == _MIN_PLACE) & (velocity < 0), 0.0, velocity)
        at_goal = (place >= _GOAL_PLACE) & (velocity >= self._goal_velocity)
        reward = tf.where(at_goal, 100.0, 0.0) - 0.1 * action[:, 0] ** 2
        return (place, velocity), reward, at_goal

    def observe(self, state: State) -> tf.Tensor:
        """Place and velocity, [B, 2]."""
        return tf.stack(state, axis=1)
