"""Turns of a rollout in which environments are at steps of their own."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from agents.types import NestedTensor


class Turn(NamedTuple):
    """The environments that an actor acts in at once, each in its own step of the rollout.

    Attributes:
      step: int32 [B], the step of each environment, in [0, T).
      mask: bool [B], the environments that are ready; the actions of others are ignored.
    """

    step: tf.Tensor
    mask: tf.Tensor

    def read(self, stored: tf.Variable) -> tf.Tensor:
        """Returns the values [B, ...] of the environments' steps in a variable [T, B, ...]."""
        return tf.gather_nd(stored, self._indices())

    def write(self, stored: tf.Variable, values: tf.Tensor) -> None:
        """Writes values [B, ...] to the steps of ready environments in a variable [T, B, ...]."""
        stored.scatter_nd_update(self._indices(), self.select(values, self.read(stored)))

    def select(self, values: NestedTensor, others: NestedTensor) -> NestedTensor:
        """Returns `values` [B, ...] where environments are ready, and `others` elsewhere."""
        return tf.nest.map_structure(self._select, values, others)

    def _select(self, values: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
        mask = tf.reshape(self.mask, [-1, *[1] * (values.shape.rank - 1)])  # [B, 1, ...]
        return tf.where(mask, values, others)

    def _indices(self) -> tf.Tensor:
        return tf.stack([self.step, tf.range(tf.size(self.step))], axis=1)  # [B, 2]
