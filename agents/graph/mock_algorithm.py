"""An actor that acts at random, for tests and for trying out environments."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.graph.algorithm import Actor
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Step
from agents.spaces import Leaf, bounds, leaf_spaces, pack
from agents.types import NestedTensor


class MockAlgorithm(Actor):
    """Performs uniformly random actions and counts the calls of its methods.

    Actions of unbounded dimensions are drawn from [-1, 1].

    Attributes:
      episodes_begun: Variable [B], int32, calls of `begin_episode` for each environment.
      episodes_ended: Variable [B], int32, calls of `end_episode` for each environment.
      steps: Variable [], int32, calls of `experience`.
    """

    def __init__(self, batch_env: InGraphEnv, seed: int = 0):
        """Acts in `batch_env`. Deterministic actions are zero, or the nearest valid value."""
        self._space, self._num_envs = batch_env.action_space, batch_env.num_envs
        self._generator = tf.random.Generator.from_seed(seed)
        self.episodes_begun = tf.Variable(tf.zeros([self._num_envs], tf.int32))
        self.episodes_ended = tf.Variable(tf.zeros([self._num_envs], tf.int32))
        self.steps = tf.Variable(0)

    def begin_episode(self, mask: tf.Tensor) -> None:
        """Counts the environments in `mask`, bool [B]."""
        self.episodes_begun.assign_add(tf.cast(mask, tf.int32))

    def perform(self, observ: NestedTensor, deterministic: bool) -> NestedTensor:
        """Returns actions [B, ...]."""
        leaves = leaf_spaces(self._space)
        return pack(self._space, [self._act(leaf, deterministic) for leaf in leaves])

    def experience(self, step: tf.Tensor, transition: Step) -> None:
        """Counts the step."""
        self.steps.assign_add(1)

    def end_episode(self, mask: tf.Tensor) -> None:
        """Counts the environments in `mask`, bool [B]."""
        self.episodes_ended.assign_add(tf.cast(mask, tf.int32))

    def _act(self, space: Leaf, deterministic: bool) -> tf.Tensor:
        low, high = (
            np.broadcast_to(np.asarray(bound, np.float64), space.shape) for bound in bounds(space)
        )
        if isinstance(space, spaces.Box):
            no_low, no_high = low < -1e9, high > 1e9
            low, high = (
                np.where(no_low, np.minimum(-1, high), low),
                np.where(no_high, np.maximum(1, low), high),
            )
        shape = (self._num_envs, *space.shape)  # [B, ...]
        if deterministic:
            return tf.cast(tf.broadcast_to(np.clip(0.0, low, high), shape), space.dtype)
        uniform = self._generator.uniform(shape, dtype=tf.float64)  # [B, ...]
        if np.issubdtype(space.dtype, np.floating):
            return tf.cast(low + uniform * (high - low), space.dtype)
        return tf.cast(low + tf.floor(uniform * (high - low + 1)), space.dtype)
