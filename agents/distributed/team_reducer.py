"""Reductions of structures of tensors, as one array for each call of an exchange."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import tensorflow as tf

from agents import stop_signals
from agents.learning.reduction import Reducer

Structure = TypeVar("Structure")

# Seconds that a learner that leaves waits for the others, to tell them.
_LEAVE_SECONDS = 30.0


class TeamReducer(Reducer, abc.ABC):
    """Combines the tensors of several learners, one call of the exchange for each structure.

    The tensors of a sum or mean have one floating point type; those of `gather` any types. Graphs
    make the calls in the order in which they were traced, so that it is that of the other learners.

    Learners begin each iteration together, or leave together: a stop signal to any of them ends the
    training of all after the iteration that it arrives in.
    """

    compiles = False
    _is_training = False

    def mean(self, tensors: Structure) -> Structure:
        """See `Reducer`."""
        return self._combine(tensors, self.num_learners)

    def sum(self, tensors: Structure) -> Structure:
        """See `Reducer`."""
        return self._combine(tensors, 1)

    def gather(self, tensors: Structure, axis: int = 0) -> Structure:
        """See `Reducer`."""
        leaves = tf.nest.flatten(tensors)
        if not leaves:
            return tensors
        data = _pack([_to_bytes(leaf) for leaf in leaves])  # [bytes]
        sizes = [leaf.shape.num_elements() * leaf.dtype.size for leaf in leaves]
        parts = tf.split(self._gather(data), sizes, axis=1)
        joined = [
            tf.concat(tf.unstack(_from_bytes(part, leaf)), axis)
            for part, leaf in zip(parts, leaves, strict=True)
        ]
        gathered: Structure = tf.nest.pack_sequence_as(tensors, joined)
        return gathered

    def copy_from_chief(self, variables: Mapping[str, tf.Variable]) -> None:
        """See `Reducer`."""
        with self._raising_lost():
            gathered = self.gather(
                {name: tf.expand_dims(variable, 0) for name, variable in variables.items()}
            )
        for name, variable in variables.items():
            variable.assign(gathered[name][0])
        self._is_training = True

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """See `Reducer`; begins when all learners have come.

        Raises:
          LearnerLostError: Another learner has failed or does not answer.
          StopRequested: A signal asked one of the learners to stop.
        """
        with self._raising_lost(), stop_signals.postponed():
            if signum := self._agree_on_stop(stop_signals.requested):
                self._is_training = False
                stop_signals.take()
                raise stop_signals.StopRequested(signum)
            yield

    def leave(self, error: BaseException | None) -> None:
        """Tells the other learners before the next iteration that a signal has stopped this one."""
        if self._is_training and isinstance(error, KeyboardInterrupt):
            with contextlib.suppress(Exception):  # They have reached the last step.
                self._agree_on_stop(stop_signals.exit_code(error) - 128, _LEAVE_SECONDS)

    def _combine(self, tensors: Structure, divisor: int) -> Structure:
        leaves = tf.nest.flatten(tensors)
        if not leaves:
            return tensors
        dtypes = sorted({leaf.dtype.name for leaf in leaves})
        if len(dtypes) > 1 or not leaves[0].dtype.is_floating:
            raise ValueError(
                f"Expected tensors of one floating point type, got {', '.join(dtypes)}."
            )
        total = self._sum(_pack(leaves)) / divisor  # [size]
        parts = tf.split(total, [leaf.shape.num_elements() for leaf in leaves])
        shaped = [tf.reshape(part, leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        combined: Structure = tf.nest.pack_sequence_as(tensors, shaped)
        return combined

    @abc.abstractmethod
    def _sum(self, flat: tf.Tensor) -> tf.Tensor:
        """The sum over learners of an array [size] of a floating point type."""

    @abc.abstractmethod
    def _gather(self, data: tf.Tensor) -> tf.Tensor:
        """The bytes of all learners, uint8 [learners, size]; `data` is uint8 [size]."""

    @abc.abstractmethod
    def _agree_on_stop(self, signum: int, timeout: float = 0.0) -> int:
        """The number of a signal to any of the learners; 0 if there was none.

        Args:
          signum: The number of a signal to this learner.
          timeout: Seconds to wait for the others; 0 for as long as they are there.
        """

    @abc.abstractmethod
    def _raising_lost(self) -> contextlib.AbstractContextManager[None]:
        """Context that raises LearnerLostError instead of TensorFlow's errors."""


def _pack(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """All elements of tensors one after another, [size]."""
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def _to_bytes(tensor: tf.Tensor) -> tf.Tensor:
    if tensor.dtype == tf.bool:
        return tf.cast(tensor, tf.uint8)
    return tf.bitcast(tensor, tf.uint8)


def _from_bytes(data: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Tensors [learners, *shape] of the type and shape of one, from uint8 [learners, size]."""
    shape = [data.shape[0], *like.shape]
    if like.dtype == tf.bool:
        return tf.reshape(tf.cast(data, tf.bool), shape)
    if like.dtype.size == 1:
        return tf.bitcast(tf.reshape(data, shape), like.dtype)
    return tf.bitcast(tf.reshape(data, [*shape, like.dtype.size]), like.dtype)
