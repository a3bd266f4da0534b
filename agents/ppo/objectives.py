"""The losses of PPO: pure functions of a minibatch."""

from __future__ import annotations

import tensorflow as tf


def clipped_policy_loss(
    log_prob: tf.Tensor, old_log_prob: tf.Tensor, advantage: tf.Tensor, clip_ratio: float
) -> tf.Tensor:
    """The clipped surrogate objective, negated (Schulman et al., 2017, arXiv 1707.06347, equation 7).

    -mean(min(ratio * A, clip(ratio, 1 - clip_ratio, 1 + clip_ratio) * A)), ratio = exp(log_prob - old_log_prob)

    Args:
      log_prob: float [M], of the actions under the policy that is trained.
      old_log_prob: float [M], under the policy that acted.
      advantage: float [M].
      clip_ratio: How far the ratio counts, to either side of one.

    Returns:
      The loss, float [].
    """
    for tensor in (old_log_prob, advantage):
        log_prob.shape.assert_is_compatible_with(tensor.shape)
    ratio = tf.exp(log_prob - old_log_prob)
    clipped = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio)
    return -tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))


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
    """Advantages [M] with mean 0 and standard deviation 1 within the minibatch (Andrychowicz et al., 2020, C67)."""
    mean, variance = tf.nn.moments(advantage, axes=[0])
    return (advantage - mean) / (tf.sqrt(variance) + 1e-8)


def approximate_kl(log_prob: tf.Tensor, old_log_prob: tf.Tensor) -> tf.Tensor:
    """Estimate of KL(old || new) from the old policy's samples: mean(ratio - 1 - log ratio), float [].

    Never negative, unbiased, and of little variance (Schulman, "Approximating KL Divergence", 2020, estimator k3).
    """
    log_ratio = log_prob - old_log_prob
    return tf.reduce_mean(tf.exp(log_ratio) - 1 - log_ratio)


def clip_fraction(log_prob: tf.Tensor, old_log_prob: tf.Tensor, clip_ratio: float) -> tf.Tensor:
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
