"""Reductions over several learners: averages, sums and joined tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

import tensorflow as tf

Structure = TypeVar("Structure")


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


def pack(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """All elements of tensors one after another, [size], for a single reduction."""
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def unpack(packed: tf.Tensor, shapes: Sequence[tf.TensorShape]) -> list[tf.Tensor]:
    """The tensors that were packed, given their shapes."""
    sizes = [shape.num_elements() for shape in shapes]
    parts = tf.split(packed, sizes)
    return [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
