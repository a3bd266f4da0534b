"""The losses of PPO: pure functions of a minibatch, whose M elements may have any shape."""

from __future__ import annotations

import tensorflow as tf


def clipped_policy_loss(
    log_prob: tf.Tensor, old_log_prob: tf.Tensor, advantage: tf.Tensor, clip_ratio: float | tf.Tensor
) -> tf.Tensor:
    """The clipped surrogate objective, negated (Schulman et al., 2017, arXiv 1707.06347, equation 7).

    -mean(min(ratio * A, clip(ratio, 1 - clip_ratio, 1 + clip_ratio) * A)), ratio = exp(log_prob - old_log_prob)

    Args:
      log_prob: float [M], of the actions under the policy that is trained.
      old_log_prob: float [M], under the policy that acted.
      advantage: float [M].
      clip_ratio: How far the ratio counts, to either side of one; infinity for no limit, which leaves -mean(ratio * A).

    Returns:
      The loss, float [].
    """
    for tensor in (old_log_prob, advantage):
        log_prob.shape.assert_is_compatible_with(tensor.shape)
    ratio = tf.exp(log_prob - old_log_prob)
    clipped = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio)
    return -tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))


def kl_penalty(kl: tf.Tensor, penalty: tf.Tensor, cutoff: float, cutoff_coef: float) -> tf.Tensor:
    """What is lost by leaving the old policy (Hafner et al., 2017, arXiv 1709.02878, section 5).

    penalty * KL + cutoff_coef * [KL > cutoff] * (KL - cutoff)^2, where KL is the mean of `kl`.

    Args:
      kl: float [M], KL(old || new) in every state.
      penalty: Weight of the divergence, float [].
      cutoff: Divergence from which on its square counts as well (nats).
      cutoff_coef: Weight of that.

    Returns:
      The loss, float [].
    """
    penalty.shape.assert_has_rank(0)
    mean = tf.reduce_mean(kl)
    return penalty * mean + cutoff_coef * tf.maximum(mean - cutoff, 0.0) ** 2


def adapted_penalty(penalty: tf.Tensor, kl: tf.Tensor, kl_target: float) -> tf.Tensor:
    """The next update's penalty [], from that of an update and the divergence [] that it led to.

    Times 1.5 above 1.3 * kl_target, divided by 1.5 below 0.7 * kl_target (Hafner et al., 2017, arXiv 1709.02878; after
    Schulman et al., 2017, arXiv 1707.06347, section 4).
    """
    factor = tf.where(kl > 1.3 * kl_target, 1.5, tf.where(kl < 0.7 * kl_target, 1 / 1.5, 1.0))
    return penalty * tf.cast(factor, penalty.dtype)


def value_loss(value: tf.Tensor, old_value: tf.Tensor, target: tf.Tensor, value_clip: float = 0.0) -> tf.Tensor:
    """Half the mean squared error of the value, optionally held near the old value.

    With clipping, the larger of the errors of `value` and of
    `old_value + clip(value - old_value, -value_clip, value_clip)` counts
    (Engstrom et al., 2020, arXiv 2005.12729, equation 2).

    Args:
      value: float [M], of the critic that is trained.
      old_value: float [M], from before the update.
      target: float [M], the return.
      value_clip: How far the value may move, in the unit of the return; 0 for no limit.

    Returns:
      The loss, float [].
    """
    for tensor in (old_value, target):
        value.shape.assert_is_compatible_with(tensor.shape)
    error = (value - target) ** 2
    if value_clip:
        near = old_value + tf.clip_by_value(value - old_value, -value_clip, value_clip)
        error = tf.maximum(error, (near - target) ** 2)
    return 0.5 * tf.reduce_mean(error)


def standardize(advantage: tf.Tensor) -> tf.Tensor:
    """Advantages [...] with mean 0 and standard deviation 1 within the minibatch (Andrychowicz et al., 2020, C67)."""
    mean, variance = tf.nn.moments(advantage, axes=list(range(len(advantage.shape))))
    return (advantage - mean) / (tf.sqrt(variance) + 1e-8)


def approximate_kl(log_prob: tf.Tensor, old_log_prob: tf.Tensor) -> tf.Tensor:
    """Estimate of KL(old || new) from the old policy's samples: mean(ratio - 1 - log ratio), float [].

    Never negative, unbiased, and of little variance (Schulman, "Approximating KL Divergence", 2020, estimator k3).
    """
    log_ratio = log_prob - old_log_prob
    return tf.reduce_mean(tf.exp(log_ratio) - 1 - log_ratio)


def clip_fraction(log_prob: tf.Tensor, old_log_prob: tf.Tensor, clip_ratio: float | tf.Tensor) -> tf.Tensor:
    """Share of a minibatch's ratios that lie outside of the clipping range, float []."""
    return tf.reduce_mean(tf.cast(tf.abs(tf.exp(log_prob - old_log_prob) - 1) > clip_ratio, tf.float32))


def explained_variance(value: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """1 - Var(target - value) / Var(target), float []: 1 for a perfect critic, 0 for a constant one.

    Args:
      value: float [T, B].
      target: float [T, B], the return. Where it does not vary at all, the result is 0.
    """
    variance = tf.math.reduce_variance(target)
    return tf.where(variance > 0, 1 - tf.math.reduce_variance(target - value) / tf.maximum(variance, 1e-30), 0.0)
