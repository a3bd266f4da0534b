"""Reductions over several learners, and over the steps that have an outcome.

A step in which an environment failed and was restarted has no outcome (see `Step.restarted`). Where
environments are not restarted there is no mask, and the results are those without one bit for bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import tensorflow as tf

Structure = TypeVar("Structure")

# Which elements are valid, a tensor bool [N]; () if all of them.
Mask: TypeAlias = Any

Axes: TypeAlias = "int | tuple[int, ...] | None"


class Reducer:
    """Combines the tensors of several data-parallel learners; with one learner, the identity.

    Everything that learners have to agree on passes through one reducer: gradients, moments of
    normalizers and advantages, the KL divergence of stops, schedules and penalties, and explained
    variance (Wijmans et al., "DD-PPO", 2020, arXiv 1911.00357). Every learner has the same number
    of environments, so that the mean of means is the mean. Learner r has the r-th part of them.

    Attributes:
      compiles: Whether XLA can compile the operations. If not, loops that reduce run as plain
        graphs with compiled parts.
      num_learners: Number of learners.
      rank: Which of them this is, from 0.
    """

    compiles = True
    num_learners = 1
    rank = 0

    def mean(self, tensors: Structure) -> Structure:
        """The mean over learners of each tensor in a `tf.nest` structure."""
        return tensors

    def sum(self, tensors: Structure) -> Structure:
        """The sum over learners of each tensor in a `tf.nest` structure."""
        return tensors

    def gather(self, tensors: Structure, axis: int = 0) -> Structure:
        """Joins the tensors of all learners along an axis, in the order of their ranks."""
        return tensors

    def own(self, tensor: tf.Tensor, axis: int = 0) -> tf.Tensor:
        """This learner's part of a tensor, along an axis that `gather` has joined or would join."""
        if self.num_learners == 1:
            return tensor
        return tf.split(tensor, self.num_learners, axis)[self.rank]

    def copy_from_chief(self, variables: Mapping[str, tf.Variable]) -> None:
        """Assigns variables the values of learner 0's variables, by name."""

    def raising(self) -> contextlib.AbstractContextManager[None]:
        """Context that raises a reduction's own exception instead of TensorFlow's."""
        return contextlib.nullcontext()


SINGLE_LEARNER = Reducer()


def is_mask(valid: Mask) -> bool:
    """Whether there is a mask."""
    return not isinstance(valid, tuple)


def masked(values: tf.Tensor, valid: Mask) -> tf.Tensor:
    """Values [N, ...] with zeros where not valid."""
    if not is_mask(valid):
        return values
    rows = tf.reshape(valid, [*valid.shape, *[1] * (len(values.shape) - len(valid.shape))])
    return tf.where(rows, values, tf.zeros_like(values))


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
