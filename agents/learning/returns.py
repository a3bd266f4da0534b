"""Advantages and returns: pure functions of a rollout."""

from __future__ import annotations

import tensorflow as tf

from agents.learning.reduction import SINGLE_LEARNER, Axes, Mask, Reducer, masked, masked_mean


def successor_values(
    value: tf.Tensor,
    final_value: tf.Tensor,
    last_value: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
) -> tf.Tensor:
    """Value of the state after each step: the bootstrap of the rewards that follow it.

    Zero after a terminal state; V(final_observ) where the episode was truncated; V of the next
    state otherwise.

    Args:
      value: float [T, B], V(observ) of each step.
      final_value: float [T, B], V(final_observ); used where an episode was truncated.
      last_value: float [B], V of the observation after the last step.
      terminated: bool [T, B].
      truncated: bool [T, B].

    Returns:
      float [T, B].
    """
    value.shape.assert_is_compatible_with(final_value.shape)
    next_value = tf.concat([value[1:], last_value[None]], axis=0)  # [T, B]
    next_value = tf.where(truncated, final_value, next_value)  # [T, B]
    return tf.where(terminated, tf.zeros_like(value), next_value)


def generalized_advantages(
    reward: tf.Tensor,
    value: tf.Tensor,
    next_value: tf.Tensor,
    done: tf.Tensor,
    discount: float,
    gae_lambda: float,
) -> tf.Tensor:
    """Generalized advantage estimation (Schulman et al., 2015, arXiv 1506.02438, equations 11 and 16).

    delta_t = r_t + discount * next_value_t - value_t
    A_t = delta_t + discount * lambda * A_{t+1}, cut after every step that is `done`

    Args:
      reward: float [T, B].
      value: float [T, B], V of the state that a step starts from.
      next_value: float [T, B], see `successor_values`.
      done: bool [T, B], whether the step ended an episode, terminated or truncated.
      discount: Discount factor, in [0, 1].
      gae_lambda: Weight of longer estimates, in [0, 1].

    Returns:
      Advantages, float [T, B]. The value target, TD(lambda), is `value` plus the advantage.
    """
    for tensor in (value, next_value, done):
        reward.shape.assert_is_compatible_with(tensor.shape)
    delta = reward + discount * next_value - value  # [T, B]
    carry = discount * gae_lambda * tf.cast(~done, reward.dtype)  # [T, B]
    return tf.scan(
        lambda later, step: step[0] + step[1] * later,
        (delta, carry),
        tf.zeros_like(reward[0]),
        reverse=True,
    )


def discounted_sums(
    reward: tf.Tensor, done: tf.Tensor, start: tf.Tensor, discount: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Discounted sum of the rewards so far in each episode: R_t = discount * R_{t-1} + r_t.

    Args:
      reward: float [T, B].
      done: bool [T, B]; the sum restarts after such a step.
      start: float [B], the sum before the first step.
      discount: Discount factor.

    Returns:
      The sums including each step, float [T, B], and the `start` of the next rollout, float [B].
    """
    is_first = tf.concat([tf.zeros_like(done[:1]), done[:-1]], axis=0)  # [T, B]
    carry = discount * tf.cast(~is_first, reward.dtype)
    sums = tf.scan(lambda so_far, step: step[0] + step[1] * so_far, (reward, carry), start)
    return sums, tf.where(done[-1], tf.zeros_like(start), sums[-1])


def standardize(
    advantage: tf.Tensor,
    reducer: Reducer = SINGLE_LEARNER,
    valid: Mask = (),
    axis: Axes = None,
    min_std: float = 0.0,
) -> tf.Tensor:
    """Scales advantages to mean 0 and standard deviation 1 (Andrychowicz et al., 2020, C67).

    Args:
      advantage: float [...], of one or more minibatches.
      reducer: Combines the minibatches of several learners.
      valid: bool [...], the advantages to scale, if not all; the others are set to 0.
      axis: The axes of a minibatch; by default all.
      min_std: Least standard deviation to divide by: it limits how much small advantages, which may
        be noise, are enlarged.

    Returns:
      float [...].
    """
    mean = masked_mean(advantage, valid, reducer, axis, keepdims=True)
    squares = tf.math.squared_difference(advantage, mean)
    variance = masked_mean(squares, valid, reducer, axis, keepdims=True)
    std = tf.sqrt(variance)
    if min_std:
        std = tf.maximum(std, min_std)
    return masked((advantage - mean) / (std + 1e-8), valid)


def explained_variance(
    value: tf.Tensor, target: tf.Tensor, reducer: Reducer = SINGLE_LEARNER, valid: Mask = ()
) -> tf.Tensor:
    """1 - Var(target - value) / Var(target): 1 for a perfect critic, 0 for a constant one.

    Args:
      value: float [...].
      target: float [...], the value targets.
      reducer: Combines the rollouts of several learners.
      valid: bool [...], the steps to consider, if not all.

    Returns:
      float []; 0 where targets do not vary.
    """
    variance = _variance(target, reducer, valid)
    ratio = _variance(target - value, reducer, valid) / tf.maximum(variance, 1e-30)
    return tf.where(variance > 0, 1 - ratio, 0.0)


def _variance(values: tf.Tensor, reducer: Reducer, valid: Mask) -> tf.Tensor:
    mean = masked_mean(values, valid, reducer)
    return masked_mean(tf.square(values - mean), valid, reducer)
