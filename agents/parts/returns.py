"""Advantages and returns: pure functions of a rollout."""

from __future__ import annotations

import tensorflow as tf


def successor_values(
    value: tf.Tensor, final_value: tf.Tensor, last_value: tf.Tensor, terminated: tf.Tensor, truncated: tf.Tensor
) -> tf.Tensor:
    """Value of the state that each step led to: what the rewards after that step are worth.

    Zero after a final state; V(final observation) where the episode was cut short; V of the next state otherwise.

    Args:
      value: float [T, B], V(observ) of each step.
      final_value: float [T, B], V(final_observ); only used where an episode was truncated.
      last_value: float [B], V of the observation after the last step.
      terminated: bool [T, B].
      truncated: bool [T, B].

    Returns:
      float [T, B].
    """
    value.shape.assert_is_compatible_with(final_value.shape)
    next_value = tf.concat([value[1:], last_value[None]], axis=0)
    next_value = tf.where(truncated, final_value, next_value)
    return tf.where(terminated, tf.zeros_like(value), next_value)


def generalized_advantages(
    reward: tf.Tensor, value: tf.Tensor, next_value: tf.Tensor, done: tf.Tensor, discount: float, gae_lambda: float
) -> tf.Tensor:
    """Generalized advantage estimation (Schulman et al., 2015, arXiv 1506.02438, equations 11 and 16).

    delta_t = r_t + discount * next_value_t - value_t
    A_t = delta_t + discount * lambda * A_{t+1}, cut after every step that is `done`.

    Args:
      reward: float [T, B].
      value: float [T, B], V of the state that a step starts from.
      next_value: float [T, B], see `successor_values`.
      done: bool [T, B], whether the step ended an episode, in whichever way.
      discount: Factor a step, in [0, 1].
      gae_lambda: Weight of longer estimates, in [0, 1].

    Returns:
      Advantages, float [T, B]. Adding `value` gives the return that the critic learns (TD(lambda)).
    """
    for tensor in (value, next_value, done):
        reward.shape.assert_is_compatible_with(tensor.shape)
    delta = reward + discount * next_value - value
    carry = discount * gae_lambda * tf.cast(~done, reward.dtype)
    return tf.scan(
        lambda later, step: step[0] + step[1] * later, (delta, carry), tf.zeros_like(reward[0]), reverse=True
    )


def discounted_sums(
    reward: tf.Tensor, done: tf.Tensor, start: tf.Tensor, discount: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Discounted sum of the rewards so far in each episode: R_t = discount * R_{t-1} + r_t.

    Args:
      reward: float [T, B].
      done: bool [T, B]; the sum starts anew after such a step.
      start: float [B], the sum before the first step.
      discount: Factor a step.

    Returns:
      The sums with each step counted in, float [T, B], and the start of the next rollout, float [B].
    """
    fresh = tf.concat([tf.zeros_like(done[:1]), done[:-1]], axis=0)
    carry = discount * tf.cast(~fresh, reward.dtype)
    sums = tf.scan(lambda so_far, step: step[0] + step[1] * so_far, (reward, carry), start)
    return sums, tf.where(done[-1], tf.zeros_like(start), sums[-1])
