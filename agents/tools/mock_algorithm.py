"""An algorithm that acts at random, for tests and for trying out environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.tools.attr_dict import AttrDict
from agents.tools.in_graph_env import InGraphEnv
from agents.tools.spaces import bounds, leaf_spaces, pack


class MockAlgorithm:
    """Performs actions drawn evenly from the action space (from [-1, 1] where it has no bounds) and counts its calls.

    Attributes:
      begun: Variable [B], int32: how often `begin_episode` was called for each environment.
      ended: Variable [B], int32: likewise for `end_episode`.
      steps: Variable [], int32: how often `experience` was called.
    """

    def __init__(self, batch_env: InGraphEnv, seed: int = 0):
        """Acts in `batch_env`; deterministic actions are zero, or the nearest that there is."""
        self._space, self._num_envs = batch_env.action_space, batch_env.num_envs
        self._generator = tf.random.Generator.from_seed(seed)
        self.begun = tf.Variable(tf.zeros([self._num_envs], tf.int32))
        self.ended = tf.Variable(tf.zeros([self._num_envs], tf.int32))
        self.steps = tf.Variable(0)

    def begin_episode(self, mask: tf.Tensor) -> None:
        """Counts the environments in `mask` [B]."""
        self.begun.assign_add(tf.cast(mask, tf.int32))

    def perform(self, observ: Any, deterministic: bool) -> Any:
        """Returns actions [B, ...]."""
        return pack(self._space, [self._act(leaf, deterministic) for leaf in leaf_spaces(self._space)])

    def experience(self, step: tf.Tensor, transition: AttrDict) -> None:
        """Counts the step."""
        self.steps.assign_add(1)

    def end_episode(self, mask: tf.Tensor) -> None:
        """Counts the environments in `mask` [B]."""
        self.ended.assign_add(tf.cast(mask, tf.int32))

    def _act(self, space: Any, deterministic: bool) -> tf.Tensor:
        low, high = (np.broadcast_to(np.asarray(bound, np.float64), space.shape) for bound in bounds(space))
        if isinstance(space, spaces.Box):
            no_low, no_high = low < -1e9, high > 1e9
            low, high = np.where(no_low, np.minimum(-1, high), low), np.where(no_high, np.maximum(1, low), high)
        shape = (self._num_envs, *space.shape)
        if deterministic:
            return tf.cast(tf.broadcast_to(np.clip(0.0, low, high), shape), space.dtype)
        uniform = self._generator.uniform(shape, dtype=tf.float64)
        if np.issubdtype(space.dtype, np.floating):
            return tf.cast(low + uniform * (high - low), space.dtype)
        return tf.cast(low + tf.floor(uniform * (high - low + 1)), space.dtype)
