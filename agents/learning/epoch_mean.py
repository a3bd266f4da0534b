"""Means over the minibatches of an epoch."""

from __future__ import annotations

import tensorflow as tf


class EpochMean:
    """The mean of a number over the minibatches of the current epoch.

    It keeps nothing between updates: checkpoints need not hold it.
    """

    def __init__(self) -> None:
        """Starts the first epoch."""
        self._sum = tf.Variable(0.0, trainable=False)
        self._count = tf.Variable(0.0, trainable=False)

    def update(self, value: tf.Tensor, ends_epoch: tf.Tensor) -> tf.Tensor:
        """Adds a minibatch's number, and restarts after the last one of an epoch.

        Args:
          value: float32 [].
          ends_epoch: bool [], whether this is the epoch's last minibatch.

        Returns:
          The mean including this minibatch, float32 [].
        """
        total, count = self._sum + value, self._count + 1.0
        self._sum.assign(tf.where(ends_epoch, 0.0, total))
        self._count.assign(tf.where(ends_epoch, 0.0, count))
        return total / count
