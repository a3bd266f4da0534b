"""When an update ends before all of its epochs are over: where the policy has left the one that acted."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from agents.config import Config
from agents.ppo.epoch_mean import EpochMean

# Makes the step of one minibatch, or does not. It gets the minibatch's KL divergence from before the step, float []; if
# it's the last one of an epoch, bool []; and a function that makes the step and returns the gradient's norm []. It
# returns that norm or 0; if it made the step; and if there should be another minibatch, [] each.
Stop = Callable[[tf.Tensor, tf.Tensor, Callable[[], tf.Tensor]], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]


def never_stop(approx_kl: tf.Tensor, ends_epoch: tf.Tensor, step: Callable[[], tf.Tensor]) -> tuple:
    """All minibatches of all epochs."""
    return step(), tf.constant(True), tf.constant(True)


def stop_before_step(threshold: float) -> Stop:
    """Until a minibatch's divergence is above a threshold (nats); its step is not made.

    As Stable-Baselines3 does for `target_kl`, where the threshold is 1.5 times that.
    """

    def stop(approx_kl: tf.Tensor, ends_epoch: tf.Tensor, step: Callable[[], tf.Tensor]) -> tuple:
        near = _near(approx_kl, threshold)
        return tf.cond(near, step, lambda: tf.zeros([])), near, near

    return stop


def stop_after_epoch(threshold: float) -> Stop:
    """Until the mean divergence of an epoch's minibatches is above a threshold (nats).

    CleanRL's `target_kl` looks at the last one of them alone: an estimate so noisy that many updates end too early.
    """
    epoch_kl = EpochMean()

    def stop(approx_kl: tf.Tensor, ends_epoch: tf.Tensor, step: Callable[[], tf.Tensor]) -> tuple:
        return step(), tf.constant(True), _near(epoch_kl(approx_kl, ends_epoch), threshold) | ~ends_epoch

    return stop


def make_stop(config: Config) -> Stop:
    """What the configuration's `kl_stop` and `kl_stop_after` say."""
    if not config.kl_stop:
        return never_stop
    return {"minibatch": stop_before_step, "epoch": stop_after_epoch}[config.kl_stop_after](config.kl_stop)


def _near(approx_kl: tf.Tensor, threshold: float) -> tf.Tensor:
    # NaN goes on, so that it is noticed. Not written as `~(kl > threshold)`, which TensorFlow turns into `<=`.
    return (approx_kl <= threshold) | tf.math.is_nan(approx_kl)
