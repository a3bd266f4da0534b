"""Means and sums of the steps that have an outcome.

A step in which an environment failed and was restarted has none (see `Step.restarted`). Where
environments are not restarted there is no mask, and the results are those without one bit for bit.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import tensorflow as tf

from agents.learning.reduction import SINGLE_LEARNER, Reducer

# Which elements are valid, a tensor bool [N]; () if all of them.
Mask: TypeAlias = Any

Axes: TypeAlias = "int | tuple[int, ...] | None"


def is_mask(valid: Mask) -> bool:
    """Whether there is a mask."""
    return not isinstance(valid, tuple)


def flat_mask(valid: Mask) -> Mask:
    """A mask [...] as [N], where there is one."""
    return tf.reshape(valid, [-1]) if is_mask(valid) else ()


def masked(values: tf.Tensor, valid: Mask) -> tf.Tensor:
    """Values [N, ...] with zeros where not valid."""
    if not is_mask(valid):
        return values
    rows = tf.reshape(valid, [*valid.shape, *[1] * (len(values.shape) - len(valid.shape))])
    return tf.where(rows, values, tf.zeros_like(values))


def masked_count(values: tf.Tensor, valid: Mask) -> tf.Tensor:
    """Number of valid rows of values [N, ...], of their type, []."""
    if not is_mask(valid):
        return tf.cast(tf.shape(values)[0], values.dtype)
    return tf.reduce_sum(tf.cast(valid, values.dtype))


def masked_mean(
    values: tf.Tensor,
    valid: Mask,
    reducer: Reducer = SINGLE_LEARNER,
    axis: Axes = None,
    keepdims: bool = False,
) -> tf.Tensor:
    """Mean of the valid values of all learners, over some axes or all; 0 if there are none.

    Args:
      values: float [N, ...], of one learner.
      valid: bool [N], of the shape of the values unless the mean is over the first axis only.
      reducer: Combines several learners.
      axis: The axes; by default all.
      keepdims: Whether the result keeps these axes, with length 1.
    """
    if not is_mask(valid):
        return reducer.mean(tf.reduce_mean(values, axis, keepdims))
    total, count = reducer.sum(
        (
            tf.reduce_sum(masked(values, valid), axis, keepdims),
            tf.reduce_sum(tf.cast(valid, values.dtype), axis, keepdims),
        )
    )
    return total / tf.maximum(count, 1)


def outcome_mask(restarted: Mask) -> Mask:
    """Marks steps that have an outcome, bool [T, B]; () if environments are not restarted."""
    return ~restarted if is_mask(restarted) else ()


def steps_before(mask: tf.Tensor) -> tf.Tensor:
    """Marks steps before the steps of a mask, bool [T, B]."""
    return tf.concat([mask[1:], tf.zeros_like(mask[:1])], axis=0)
