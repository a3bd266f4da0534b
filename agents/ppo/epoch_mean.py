"""Means over the minibatches of an epoch."""

from __future__ import annotations

import tensorflow as tf


class EpochMean:
    """The mean of a number over the minibatches of an epoch so far.

    Between updates nothing is kept: checkpoints need not hold it.
    """

    def __init__(self) -> None:
        """Begins the first epoch."""
        self._sum = tf.Variable(0.0, trainable=False)
        self._count = tf.Variable(0.0, trainable=False)

    def __call__(self, number: tf.Tensor, ends_epoch: tf.Tensor) -> tf.Tensor:
        """Takes in a minibatch's number, float [], and begins anew after the epoch's last one, bool [].

        Returns:
          The mean, with this minibatch, float [].
        """
        total, count = self._sum + number, self._count + 1.0
        self._sum.assign(tf.where(ends_epoch, 0.0, total))
        self._count.assign(tf.where(ends_epoch, 0.0, count))
        return total / count
