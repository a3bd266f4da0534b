"""Losses of soft actor-critic, and of its truncated quantile critics.

C critics, M elements, K quantiles. With one quantile they are those of Haarnoja et al., "Soft
Actor-Critic Algorithms and Applications" (2018, arXiv 1812.05905), otherwise those of Kuznetsov et al.,
"Controlling Overestimation Bias with Truncated Mixture of Continuous Distributional Quantile Critics"
(2020, arXiv 2005.04269).
"""

from __future__ import annotations

import tensorflow as tf


def value_targets(
    reward: tf.Tensor,
    discount: tf.Tensor,
    next_values: tf.Tensor,
    next_log_prob: tf.Tensor,
    entropy_coef: tf.Tensor,
    num_dropped: int,
) -> tf.Tensor:
    """Targets of the critics: equation 3 of Haarnoja et al., or 12 of Kuznetsov et al.

    Args:
      reward: float32 [M].
      discount: Factor of the next value, float32 [M], 0 where the episode terminated.
      next_values: Quantiles of the target critics for actions of the policy, float32 [C, M, K].
      next_log_prob: Log-densities of these actions, float32 [M].
      entropy_coef: float32 [].
      num_dropped: Largest quantiles to drop, for each critic.

    Returns:
      float32 [M, C * (K - num_dropped)]; [M, 1], of the smallest critic, with one quantile.
    """
    num_critics, _, num_quantiles = next_values.shape
    if num_quantiles == 1:
        kept = tf.reduce_min(next_values, axis=0)  # [M, 1]
    else:
        pooled = tf.concat(tf.unstack(next_values), axis=-1)  # [M, C * K]
        kept = tf.sort(pooled, axis=-1)[:, : num_critics * (num_quantiles - num_dropped)]
    soft = kept - entropy_coef * next_log_prob[:, None]
    return reward[:, None] + discount[:, None] * soft


def critic_loss(values: tf.Tensor, targets: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Half the squared error, summed over critics; or the quantile Huber loss.

    Args:
      values: Quantiles of the critics, float32 [C, M, K].
      targets: float32 [M, N].
      weight: Weights of the elements, float32 [M].

    Returns:
      float32 [].
    """
    num_quantiles = values.shape[-1]
    if num_quantiles == 1:
        errors = tf.reduce_sum((values - targets) ** 2, axis=(0, 2))  # [M]
        return 0.5 * weighted_mean(errors, weight)
    # Equations 7 and 13 of Kuznetsov et al.
    level = (tf.range(num_quantiles, dtype=tf.float32) + 0.5) / num_quantiles  # [K]
    error = targets[None, :, None, :] - values[..., None]  # [C, M, K, N]
    size = tf.abs(error)
    huber = tf.where(size > 1, size - 0.5, 0.5 * error**2)
    losses = tf.abs(level[:, None] - tf.cast(error < 0, tf.float32)) * huber
    return weighted_mean(tf.reduce_mean(losses, axis=(0, 2, 3)), weight)


def policy_loss(
    values: tf.Tensor, log_prob: tf.Tensor, entropy_coef: tf.Tensor, weight: tf.Tensor
) -> tf.Tensor:
    """Entropy against value: equation 7 of Haarnoja et al.

    Args:
      values: Quantiles of the critics for actions of the policy, float32 [C, M, K].
      log_prob: Log-densities of these actions, float32 [M].
      entropy_coef: float32 [].
      weight: Weights of the elements, float32 [M].

    Returns:
      float32 [].
    """
    if values.shape[-1] == 1:
        value = tf.reduce_min(values, axis=(0, 2))  # [M]
    else:
        value = tf.reduce_mean(values, axis=(0, 2))  # [M]
    return weighted_mean(entropy_coef * log_prob - value, weight)


def entropy_loss(
    log_entropy_coef: tf.Tensor, log_prob: tf.Tensor, target_entropy: float, weight: tf.Tensor
) -> tf.Tensor:
    """Raises the coefficient where the entropy is below its target; equation 18 of Haarnoja et al.

    The logarithm stands for the coefficient, as in the authors' code.

    Args:
      log_entropy_coef: float32 [].
      log_prob: Log-densities of actions of the policy, float32 [M].
      target_entropy: In nats.
      weight: Weights of the elements, float32 [M].

    Returns:
      float32 [].
    """
    return -log_entropy_coef * weighted_mean(log_prob + target_entropy, weight)


def weighted_mean(values: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """The mean of values [M] by weights [M], float32 []."""
    return tf.reduce_sum(weight * values) / tf.maximum(tf.reduce_sum(weight), 1.0)
