"""Early stopping of an update whose policy has moved too far from the one that acted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from agents.learning.epoch_mean import EpochMean
from agents.settings.config import Config

# Applies the gradients of a minibatch and returns their global norm, float32 [].
ApplyGradients = Callable[[], tf.Tensor]


class KLStop(Protocol):
    """Decides for each minibatch whether to apply its gradients, and whether to continue."""

    def step(
        self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor, apply: ApplyGradients
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Applies a minibatch's gradients, or does not.

        Args:
          approx_kl: KL divergence before the gradients are applied, float32 [], in nats.
          ends_epoch: Whether the minibatch is an epoch's last one, bool [].
          apply: Applies the gradients.

        Returns:
          Norm of the gradients or 0, float32 []; whether they were applied, bool []; and whether
          the update continues, bool [].
        """


class NeverStop:
    """Applies all minibatches of all epochs."""

    def step(
        self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor, apply: ApplyGradients
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `KLStop`."""
        return apply(), tf.constant(True), tf.constant(True)


class StopBeforeMinibatch:
    """Stops at the first minibatch whose KL divergence exceeds a threshold, without applying it.

    As Stable-Baselines3 does for `target_kl`, with a threshold of 1.5 times that.
    """

    def __init__(self, threshold: float):
        """Stops above `threshold`, in nats."""
        self._threshold = threshold

    def step(
        self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor, apply: ApplyGradients
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `KLStop`."""
        within = _within(approx_kl, self._threshold)
        return tf.cond(within, apply, lambda: tf.zeros([])), within, within


class StopAfterEpoch:
    """Stops after an epoch whose mean KL divergence exceeds a threshold.

    CleanRL's `target_kl` considers the last minibatch only: an estimate so noisy that many updates
    stop too early.
    """

    def __init__(self, threshold: float):
        """Stops above `threshold`, in nats."""
        self._threshold, self._epoch_kl = threshold, EpochMean()

    def step(
        self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor, apply: ApplyGradients
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `KLStop`."""
        norm = apply()
        within = _within(self._epoch_kl.update(approx_kl, ends_epoch), self._threshold)
        return norm, tf.constant(True), within | ~ends_epoch


def make_kl_stop(config: Config) -> KLStop:
    """The rule that the settings `kl_stop` and `kl_stop_after` describe."""
    if not config.kl_stop:
        return NeverStop()
    rule = StopBeforeMinibatch if config.kl_stop_after == "minibatch" else StopAfterEpoch
    return rule(config.kl_stop)


def _within(kl: tf.Tensor, threshold: float) -> tf.Tensor:
    # NaN continues, so that it is noticed. Not `~(kl > threshold)`, which TensorFlow turns to `<=`.
    return (kl <= threshold) | tf.math.is_nan(kl)
