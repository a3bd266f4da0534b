"""Detection of NaN and infinities inside compiled programs, where assertions vanish."""

from __future__ import annotations

import math

import tensorflow as tf

from agents.learning.reduction import Reducer
from agents.types import NestedTensor

# By name a number that is not finite, float [], and its index, int32 [].
Found = dict[str, tuple[tf.Tensor, tf.Tensor]]


def find_nonfinite(
    reward: tf.Tensor,
    done: tf.Tensor,
    sample: NestedTensor,
    loss: tf.Tensor,
    observ: tf.Tensor | None = None,
    final_observ: tf.Tensor | None = None,
    last_observ: tf.Tensor | None = None,
    gradient: tf.Tensor | None = None,
) -> Found:
    """Looks for numbers that are not finite in a rollout, and in loss and gradients of its update.

    Args:
      reward: float32 [T, B].
      done: bool [T, B].
      sample: Structure [T, B, ...] of the policy's samples.
      loss: float32 [].
      observ: float [T, B, O]; None for observations without numbers: images are integers.
      final_observ: float [T, B, O], checked where `done`.
      last_observ: float [B, O], the observations after the rollout.
      gradient: float32 [], the norm of the gradients.

    Returns:
      By name (`reward`, `action`, `loss`, and `observ`, `final_observ` and `gradient` if given)
      the result of `first_nonfinite`.
    """
    samples = [tf.cast(leaf, tf.float32) for leaf in tf.nest.flatten(sample)]
    vectors = [leaf[..., None] if leaf.shape.rank == 2 else leaf for leaf in samples]
    monitored = {"reward": reward, "action": tf.concat(vectors, axis=-1)}  # [T, B], [T, B, A]
    if observ is not None and last_observ is not None:
        monitored["observ"] = tf.concat([observ, last_observ[None]], axis=0)  # [T + 1, B, O]
        zeros = tf.zeros_like(final_observ)
        monitored["final_observ"] = tf.where(done[..., None], final_observ, zeros)  # [T, B, O]
    monitored["loss"] = loss[None, None]  # [1, 1]
    if gradient is not None:
        monitored["gradient"] = gradient[None, None]  # [1, 1]
    return {name: first_nonfinite(values) for name, values in monitored.items()}


def first_nonfinite(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the first NaN or infinity, or number beyond the range of float32, which networks take.

    Args:
      values: float [T, B, ...].

    Returns:
      That number, float [], and its index in the flat [T, B], int32 []; index -1 where all numbers
      are finite.
    """
    flat = tf.reshape(values, [-1])  # [T * B * ...]
    bad = ~tf.math.is_finite(tf.cast(flat, tf.float32))  # [T * B * ...]
    first = tf.argmax(bad, output_type=tf.int32)  # []
    numbers_per_step = flat.shape[0] // (values.shape[0] * values.shape[1])
    index = tf.where(tf.reduce_any(bad), first // numbers_per_step, -1)
    return tf.gather(flat, first), index


def describe(number: float) -> str:
    """A number that `first_nonfinite` has found, for a message."""
    return f"{number:g}" + (", which exceeds float32," if math.isfinite(number) else "")


def nonfinite_of_all(found: Found, reducer: Reducer, num_envs: int) -> Found:
    """Joins the findings of all learners, each in its own environments.

    Args:
      found: What `find_nonfinite` returned for this learner.
      reducer: Combines several learners.
      num_envs: Number of environments of a learner.

    Returns:
      By name the number of the first learner that has found any, and its index in the flat
      [T, environments of all learners].
    """
    if reducer.num_learners == 1:
        return found
    by_rank = reducer.gather(tf.nest.map_structure(lambda one: one[None], found))  # [learners]
    joined = {}
    for name, (numbers, indices) in by_rank.items():
        rank = tf.argmax(indices >= 0, output_type=tf.int32)  # []
        step, env = indices[rank] // num_envs, indices[rank] % num_envs
        index = (step * reducer.num_learners + rank) * num_envs + env
        joined[name] = numbers[rank], tf.where(tf.reduce_any(indices >= 0), index, -1)
    return joined
