"""The objectives of PPO: pure functions of a minibatch, whose M elements may have any shape."""

from __future__ import annotations

import tensorflow as tf

from agents.learning.reduction import Mask, masked


def clipped_policy_loss(
    log_prob: tf.Tensor,
    old_log_prob: tf.Tensor,
    advantage: tf.Tensor,
    clip_ratio: float | tf.Tensor,
) -> tf.Tensor:
    """The clipped surrogate objective, negated (Schulman et al., 2017, equation 7).

    -mean(min(r * A, clip(r, 1 - clip_ratio, 1 + clip_ratio) * A)), r = exp(log_prob - old_log_prob)

    Args:
      log_prob: float [M], log-probabilities of the samples under the trained policy.
      old_log_prob: float [M], under the policy that acted.
      advantage: float [M], A.
      clip_ratio: Clipping range of the ratio r around 1; infinity leaves -mean(r * A).

    Returns:
      The loss, float [].
    """
    for tensor in (old_log_prob, advantage):
        log_prob.shape.assert_is_compatible_with(tensor.shape)
    ratio = tf.exp(log_prob - old_log_prob)  # [M]
    clipped = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio)  # [M]
    return -tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))


def kl_penalty(kl: tf.Tensor, penalty: tf.Tensor, cutoff: float, cutoff_coef: float) -> tf.Tensor:
    """The penalty on the KL divergence (Hafner et al., 2017, arXiv 1709.02878, section 5).

    penalty * KL + cutoff_coef * [KL > cutoff] * (KL - cutoff)^2, where KL is the mean of `kl`.

    Args:
      kl: float [M], KL(old || new) in each state, in nats.
      penalty: Coefficient of the divergence, float [].
      cutoff: Divergence above which its squared excess is penalized, in nats.
      cutoff_coef: Coefficient of the squared excess.

    Returns:
      The loss, float [].
    """
    penalty.shape.assert_has_rank(0)
    mean = tf.reduce_mean(kl)  # []
    return penalty * mean + cutoff_coef * tf.maximum(mean - cutoff, 0.0) ** 2


def adapted_penalty(penalty: tf.Tensor, kl: tf.Tensor, kl_target: float) -> tf.Tensor:
    """The coefficient of the KL penalty for the next update.

    Multiplied by 1.5 above 1.3 * kl_target, divided by 1.5 below 0.7 * kl_target (Hafner et al.,
    2017, arXiv 1709.02878; after Schulman et al., 2017, arXiv 1707.06347, section 4).

    Args:
      penalty: Coefficient of the last update, float [].
      kl: Mean KL divergence after the last update, float [], in nats.
      kl_target: Target divergence, in nats.

    Returns:
      float [].
    """
    factor = tf.where(kl > 1.3 * kl_target, 1.5, tf.where(kl < 0.7 * kl_target, 1 / 1.5, 1.0))
    return penalty * tf.cast(factor, penalty.dtype)


def value_loss(
    value: tf.Tensor,
    old_value: tf.Tensor,
    target: tf.Tensor,
    value_clip: float = 0.0,
    valid: Mask = (),
) -> tf.Tensor:
    """Half the mean squared error of the value function, optionally clipped.

    Clipping takes the larger of the errors of `value` and of
    `old_value + clip(value - old_value, -value_clip, value_clip)`
    (Engstrom et al., 2020, arXiv 2005.12729, equation 2).

    Args:
      value: float [M], of the trained value function.
      old_value: float [M], before the update.
      target: float [M], the value targets.
      value_clip: Clipping range, in units of the value; 0 to disable.
      valid: bool [M], the elements that have a target, if not all; the others' error is 0.

    Returns:
      The loss, float [].
    """
    for tensor in (old_value, target):
        value.shape.assert_is_compatible_with(tensor.shape)
    error = (value - target) ** 2  # [M]
    if value_clip:
        near = old_value + tf.clip_by_value(value - old_value, -value_clip, value_clip)
        error = tf.maximum(error, (near - target) ** 2)
    return 0.5 * tf.reduce_mean(masked(error, valid))


def approximate_kl(log_prob: tf.Tensor, old_log_prob: tf.Tensor) -> tf.Tensor:
    """Estimates KL(old || new) from samples of the old policy: mean(r - 1 - log r), float [].

    Not negative, unbiased and of low variance (Schulman, "Approximating KL Divergence", 2020,
    estimator k3). Both arguments are float [M].
    """
    log_ratio = log_prob - old_log_prob  # [M]
    return tf.reduce_mean(tf.exp(log_ratio) - 1 - log_ratio)


def clip_fraction(
    log_prob: tf.Tensor, old_log_prob: tf.Tensor, clip_ratio: float | tf.Tensor
) -> tf.Tensor:
    """Fraction of a minibatch's ratios outside of the clipping range, float []."""
    distance = tf.abs(tf.exp(log_prob - old_log_prob) - 1)  # [M]
    return tf.reduce_mean(tf.cast(distance > clip_ratio, tf.float32))
