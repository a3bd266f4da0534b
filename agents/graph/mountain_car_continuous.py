"""Mountain car: drive an underpowered car up a hill."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.graph.tensor_env import TensorEnv, Uniform

State = tuple[tf.Tensor, tf.Tensor]

_MIN_POSITION, _MAX_POSITION, _GOAL_POSITION = -1.2, 0.6, 0.45
_MAX_SPEED = 0.07
_POWER, _GRAVITY = 0.0015, 0.0025


class MountainCarContinuous(TensorEnv):
    """MountainCarContinuous-v0 as in `gymnasium.envs.classic_control.continuous_mountain_car`.

    From Moore, "Efficient Memory-based Learning for Robot Control" (1990). A state is the car's
    position and velocity: float32 [B] each, since Gymnasium rounds the state to float32 in every
    step.
    """

    def __init__(self, goal_velocity: float = 0.0):
        """Initializes the spaces.

        Args:
          goal_velocity: Minimum velocity at the goal for the episode to terminate.
        """
        self._goal_velocity = goal_velocity
        low = np.array([_MIN_POSITION, -_MAX_SPEED], np.float32)  # [O]
        high = np.array([_MAX_POSITION, _MAX_SPEED], np.float32)  # [O]
        self.observation_space = spaces.Box(low, high)
        self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def initial_state(self, uniform: Uniform) -> State:
        """Returns states at rest near the bottom of the valley, [B] each."""
        position = tf.cast(uniform(-0.6, -0.4), tf.float32)
        return position, tf.zeros_like(position)

    def step(
        self, state: State, action: tf.Tensor, uniform: Uniform
    ) -> tuple[State, tf.Tensor, tf.Tensor]:
        """Applies a force [B, 1], which is penalized; the goal gives 100 and terminates."""
        position, velocity = state
        force = tf.clip_by_value(action[:, 0], -1.0, 1.0)  # [B]
        # The cosine is in double precision, as in Gymnasium.
        downhill = tf.cast(_GRAVITY * tf.cos(tf.cast(3.0 * position, tf.float64)), tf.float32)
        velocity += force * _POWER - downhill
        velocity = tf.clip_by_value(velocity, -_MAX_SPEED, _MAX_SPEED)
        position = tf.clip_by_value(position + velocity, _MIN_POSITION, _MAX_POSITION)
        velocity = tf.where((position == _MIN_POSITION) & (velocity < 0), 0.0, velocity)
        terminated = (position >= _GOAL_POSITION) & (velocity >= self._goal_velocity)  # [B]
        reward = tf.where(terminated, 100.0, 0.0) - 0.1 * action[:, 0] ** 2
        return (position, velocity), reward, terminated

    def observe(self, state: State) -> tf.Tensor:
        """Returns position and velocity, float32 [B, 2]."""
        return tf.stack(state, axis=1)
