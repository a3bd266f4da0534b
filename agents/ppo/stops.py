"""When an update ends before all of its epochs are over: where the policy has left the one that acted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from agents.config import Config


class Stop(Protocol):
    """Makes the optimizer's steps, as long as it is worthwhile."""

    def __call__(
        self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor, step: Callable[[], tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Makes the step of one minibatch, or does not.

        Args:
          approx_kl: KL divergence of the minibatch, before its step, float [].
          ends_epoch: Whether it's the last one of an epoch, bool [].
          step: Makes the step, and returns the gradient's norm [].

        Returns:
          What `step` returned, or 0; whether it was called; and whether there should be another minibatch; all [].
        """


class NeverStop:
    """All epochs."""

    def __call__(self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor, step: Callable[[], tf.Tensor]) -> tuple:
        """See `Stop`."""
        return step(), tf.constant(True), tf.constant(True)


class StopBeforeStep:
    """Until a minibatch's divergence is above a threshold, whose step is not made.

    As Stable-Baselines3 does for `target_kl`, where the threshold is 1.5 times that.
    """

    def __init__(self, threshold: float):
        """Takes the divergence (nats)."""
        self._threshold = threshold

    def __call__(self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor, step: Callable[[], tf.Tensor]) -> tuple:
        """See `Stop`."""
        near = ~(approx_kl > self._threshold)  # NaN goes on, so that it is noticed.
        return tf.cond(near, step, lambda: tf.zeros([])), near, near


class StopAfterEpoch(StopBeforeStep):
    """Until the divergence of an epoch's last minibatch is above a threshold, as CleanRL does for `target_kl`."""

    def __call__(self, approx_kl: tf.Tensor, ends_epoch: tf.Tensor, step: Callable[[], tf.Tensor]) -> tuple:
        """See `Stop`."""
        return step(), tf.constant(True), ~(ends_epoch & (approx_kl > self._threshold))


def make_stop(config: Config) -> Stop:
    """What the configuration's `kl_stop` and `kl_stop_after` say."""
    if not config.kl_stop:
        return NeverStop()
    return {"minibatch": StopBeforeStep, "epoch": StopAfterEpoch}[config.kl_stop_after](config.kl_stop)
