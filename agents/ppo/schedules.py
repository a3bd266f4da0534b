"""Numbers that change in the course of a training: learning rates, clipping, and the weight of the entropy."""

from __future__ import annotations

import tensorflow as tf

from agents.ppo.epoch_mean import EpochMean


class Constant:
    """A number that stays as it is."""

    def __init__(self, initial: float):
        """Takes the number."""
        self._initial = initial

    def __call__(self, progress: tf.Tensor) -> tf.Tensor:
        """The number, float32 [], at a `progress` of 0 at the start to 1 at the last step, float32 []."""
        return tf.constant(self._initial, tf.float32)

    def observe(self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor) -> None:
        """Takes note of a minibatch's KL divergence, and whether that was the epoch's last; here, nothing to do."""

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it, by name."""
        return {}


class Linear(Constant):
    """A number that falls linearly, to 0 at the last step."""

    def __call__(self, progress: tf.Tensor) -> tf.Tensor:
        """See `Constant`."""
        return self._initial * (1.0 - progress)


class KLAdaptive(Constant):
    """A learning rate that is divided by 1.5 where policies change too much within an epoch, and multiplied otherwise.

    After every epoch: / 1.5 if its mean KL divergence is above 2 * kl_target, * 1.5 if it is below kl_target / 2, in
    the range [1e-6, 1e-2]; the rule of skrl's `KLAdaptiveLR`. An update that is stopped ends the epoch, and the
    minibatch that it was stopped at counts.
    """

    def __init__(self, initial: float, kl_target: float):
        """Takes the first learning rate and the KL divergence to aim at (nats)."""
        super().__init__(initial)
        self._kl_target = kl_target
        self._rate = tf.Variable(initial, trainable=False)
        self._epoch_kl = EpochMean()

    def __call__(self, progress: tf.Tensor) -> tf.Tensor:
        """See `Constant`."""
        return tf.convert_to_tensor(self._rate)

    def observe(self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor) -> None:
        """See `Constant`."""
        rate, kl = tf.convert_to_tensor(self._rate), self._epoch_kl(approx_kl, ends_epoch)
        slower, faster = tf.maximum(rate / 1.5, 1e-6), tf.minimum(rate * 1.5, 1e-2)
        adapted = tf.where(kl > 2 * self._kl_target, slower, tf.where(kl < self._kl_target / 2, faster, rate))
        self._rate.assign(tf.where(ends_epoch, adapted, rate))

    def variables(self) -> dict[str, tf.Variable]:
        """See `Constant`."""
        return {"rate": self._rate}


def make_schedule(name: str, initial: float, kl_target: float = 0.0) -> Constant:
    """Schedule of the name `constant`, `linear` or `kl` (for learning rates alone)."""
    return KLAdaptive(initial, kl_target) if name == "kl" else {"constant": Constant, "linear": Linear}[name](initial)
