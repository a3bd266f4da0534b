"""Schedules of learning rates, clipping ranges and coefficients."""

from __future__ import annotations

import tensorflow as tf


class Schedule:
    """A number over the training: a constant, unless a subclass changes it."""

    def __init__(self, initial: float):
        """Starts at `initial`."""
        self._initial = initial

    def value(self, progress: tf.Tensor) -> tf.Tensor:
        """The current value, float32 [].

        Args:
          progress: Fraction of the training that is over, float32 [] in [0, 1].
        """
        return tf.constant(self._initial, tf.float32)

    def observe(self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor) -> None:
        """Receives a minibatch's KL divergence, float32 [], and whether it ends an epoch, bool []."""

    def variables(self) -> dict[str, tf.Variable]:
        """The state that a checkpoint holds, by name."""
        return {}


class Linear(Schedule):
    """Decreases linearly to 0 at the last step."""

    def value(self, progress: tf.Tensor) -> tf.Tensor:
        """See `Schedule`."""
        return self._initial * (1.0 - progress)


class KLAdaptive(Schedule):
    """A learning rate that follows the KL divergence of the epochs, as skrl's `KLAdaptiveLR`.

    After every epoch it is divided by 1.5 if the mean KL divergence is above 2 * kl_target, and
    multiplied by 1.5 if it is below kl_target / 2, within [1e-6, 1e-2]. A rate outside of these
    limits does not move further away. A stopped update ends the epoch, including the minibatch that
    it stopped at.
    """

    def __init__(self, initial: float, kl_target: float):
        """Starts at `initial`; `kl_target` is in nats."""
        super().__init__(initial)
        self._kl_target = kl_target
        self._rate = tf.Variable(initial, trainable=False)
        self._epoch_kl = EpochMean()

    def value(self, progress: tf.Tensor) -> tf.Tensor:
        """See `Schedule`."""
        return tf.convert_to_tensor(self._rate)

    def observe(self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor) -> None:
        """See `Schedule`."""
        rate, kl = tf.convert_to_tensor(self._rate), self._epoch_kl.update(approx_kl, ends_epoch)
        slower = tf.minimum(rate, tf.maximum(rate / 1.5, 1e-6))
        faster = tf.maximum(rate, tf.minimum(rate * 1.5, 1e-2))
        not_above = tf.where(kl < self._kl_target / 2, faster, rate)
        adapted = tf.where(kl > 2 * self._kl_target, slower, not_above)
        self._rate.assign(tf.where(ends_epoch, adapted, rate))

    def variables(self) -> dict[str, tf.Variable]:
        """See `Schedule`."""
        return {"rate": self._rate}


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


def make_schedule(name: str, initial: float, kl_target: float = 0.0) -> Schedule:
    """The schedule `constant`, `linear` or, for learning rates, `kl`."""
    if name == "kl":
        return KLAdaptive(initial, kl_target)
    return {"constant": Schedule, "linear": Linear}[name](initial)
