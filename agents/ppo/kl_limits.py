"""KL divergences that limit an update."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import tensorflow as tf

from agents.learning.schedules import EpochMean
from agents.settings.config import Config

# Applies the gradients of a minibatch and returns their global norm, float32 [].
ApplyGradients = Callable[[], tf.Tensor]


class KLStop:
    """Stops an update whose policy has moved too far from the policy before it, on equal inputs.

    After `minibatch` it stops at the first minibatch whose KL divergence exceeds the threshold,
    without applying it, as Stable-Baselines3 does for `target_kl`, with a threshold of 1.5 times
    that. After `epoch` it stops at the end of an epoch whose mean divergence exceeds it. CleanRL's
    `target_kl` considers the last minibatch only: an estimate so noisy that many updates stop too
    early.
    """

    def __init__(self, threshold: float = 0.0, after: Literal["minibatch", "epoch"] = "minibatch"):
        """Stops above `threshold`, in nats; never if it is 0."""
        self._threshold, self._after = threshold, after
        self._epoch_kl = EpochMean()

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
        if not self._threshold:
            return apply(), tf.constant(True), tf.constant(True)
        if self._after == "minibatch":
            within = self._within(approx_kl)
            return tf.cond(within, apply, lambda: tf.zeros([])), within, within
        norm = apply()
        within = self._within(self._epoch_kl.update(approx_kl, ends_epoch))
        return norm, tf.constant(True), within | ~ends_epoch

    def _within(self, kl: tf.Tensor) -> tf.Tensor:
        # NaN continues, so that it is noticed. TensorFlow turns `~(kl > threshold)` to `<=`.
        return (kl <= self._threshold) | tf.math.is_nan(kl)


def multiply_kl_limits(config: Config, action_dimensions: int) -> Config:
    """The settings, with the `kl_stop` and `kl_target` of actions of so many dimensions.

    The KL divergence of independent dimensions is the sum of theirs. With `multiply_kl_stop` and
    `multiply_kl_target`, both grow, but less than that sum: with the root of the dimensions.

    Args:
      config: The experiment's settings.
      action_dimensions: Number of action dimensions.
    """
    factor = math.sqrt(action_dimensions)
    limits = {
        "kl_stop": config.kl_stop * (factor if config.multiply_kl_stop else 1),
        "kl_target": config.kl_target * (factor if config.multiply_kl_target else 1),
    }
    return config.model_copy(update=limits)
