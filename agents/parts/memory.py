"""What a rollout gave, step by step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Memory:
    """A structure of variables [T, B, ...] that is filled step by step inside of a loop in the graph.

    Every rollout overwrites the one before, so that nothing of it belongs in a checkpoint.
    """

    def __init__(self, length: int, examples: Any):
        """Makes the variables.

        Args:
          length: Steps of a rollout, T.
          examples: Structure of tensors, variables or `tf.TensorSpec` [B, ...], like what `write` will get.
        """
        self._variables = tf.nest.map_structure(
            lambda example: tf.Variable(tf.zeros([length, *example.shape], example.dtype), trainable=False), examples
        )

    def write(self, step: tf.Tensor, values: Any) -> None:
        """Stores one step: a structure of tensors [B, ...]; `step` is an int32 scalar below T."""
        # Assigning to a slice would be shorter, but XLA can't compile that for a step known only as it runs.
        tf.nest.map_structure(
            lambda variable, value: variable.scatter_nd_update([[step]], value[None]), self._variables, values
        )

    def read(self) -> Any:
        """The whole rollout: a structure of tensors [T, B, ...]."""
        return tf.nest.map_structure(tf.convert_to_tensor, self._variables)
