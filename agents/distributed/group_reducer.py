"""What learners exchange, as operations of the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np
import tensorflow as tf

from agents.distributed.group import Group
from agents.graph.python_call import PythonCall
from agents.learning.reduction import Reducer

Structure = TypeVar("Structure")


class GroupReducer(Reducer):
    """Combines the tensors of the learners of a group, one message for each call.

    The tensors of a sum or mean have one floating point type; those of `gather` any types. Graphs
    make the calls in the order in which they were traced, so that it is that of the other learners.
    """

    compiles = False

    def __init__(self, group: Group):
        """Serves one learner of the group, which was started."""
        self._exchange = group.exchange
        self.num_learners, self.rank = group.num_learners, group.rank
        self._failure: BaseException | None = None
        # Graphs order operations by the variables they use: a loop and what follows it, too.
        with tf.device("CPU:0"):
            self._turn = tf.Variable(0, trainable=False)
        self._calls: list[PythonCall] = []  # They have to live as long as the graphs.

    def mean(self, tensors: Structure) -> Structure:
        """See `Reducer`."""

        def mean(*arrays: np.ndarray) -> np.ndarray:
            total = self._exchange.sum(arrays)
            total /= self.num_learners
            return total

        return self._combine(tensors, mean)

    def sum(self, tensors: Structure) -> Structure:
        """See `Reducer`."""
        return self._combine(tensors, lambda *arrays: self._exchange.sum(arrays))

    def gather(self, tensors: Structure, axis: int = 0) -> Structure:
        """See `Reducer`."""
        leaves = tf.nest.flatten(tensors)
        if not leaves:
            return tensors
        sizes = [leaf.shape.num_elements() * leaf.dtype.size for leaf in leaves]
        shape = [self.num_learners, sum(sizes)]
        packed = self._call(self._gather, leaves, tf.uint8, shape)  # [learners, bytes]
        joined = [
            _join(_from_bytes(part, leaf), axis)
            for part, leaf in zip(tf.split(packed, sizes, axis=1), leaves, strict=True)
        ]
        gathered: Structure = tf.nest.pack_sequence_as(tensors, joined)
        return gathered

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """See `Reducer`."""
        self._failure = None
        try:
            yield
        except tf.errors.OpError:
            if self._failure is None:
                raise
            raise self._failure from None

    def copy_from_chief(self, variables: Mapping[str, tf.Variable]) -> None:
        """Assigns variables the values that those of the chief have."""
        arrays = {name: variable.numpy() for name, variable in variables.items()}
        own = np.concatenate([array.reshape(-1).view(np.uint8) for array in arrays.values()])
        received, start = self._exchange.broadcast(own), 0
        for name, array in arrays.items():
            data = received[start : start + array.nbytes]
            variables[name].assign(np.frombuffer(data.tobytes(), array.dtype).reshape(array.shape))
            start += array.nbytes

    def _combine(self, tensors: Structure, function: Callable[..., np.ndarray]) -> Structure:
        leaves = tf.nest.flatten(tensors)
        if not leaves:
            return tensors
        dtypes = sorted({leaf.dtype.name for leaf in leaves})
        if len(dtypes) > 1 or not leaves[0].dtype.is_floating:
            raise ValueError(
                f"Expected tensors of one floating point type, got {', '.join(dtypes)}."
            )
        sizes = [leaf.shape.num_elements() for leaf in leaves]
        flat = self._call(function, leaves, leaves[0].dtype, [sum(sizes)])
        parts = tf.split(flat, sizes) if len(sizes) > 1 else [flat]
        combined: Structure = tf.nest.pack_sequence_as(
            tensors,
            [tf.reshape(part, leaf.shape) for part, leaf in zip(parts, leaves, strict=True)],
        )
        return combined

    def _call(
        self,
        function: Callable[..., np.ndarray],
        leaves: list[tf.Tensor],
        dtype: tf.DType,
        shape: list[int],
    ) -> tf.Tensor:
        def guarded(*arrays: np.ndarray) -> np.ndarray:
            try:
                return function(*arrays)
            except BaseException as failure:
                self._failure = failure
                raise

        self._calls.append(PythonCall(guarded))
        with tf.control_dependencies([self._turn.read_value()]):
            result = self._calls[-1].operation(leaves, dtype, shape)
        with tf.control_dependencies([result]):
            self._turn.assign_add(1)
        return result

    def _gather(self, *arrays: np.ndarray) -> np.ndarray:
        own = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
        return self._exchange.gather(np.concatenate(own))


def _from_bytes(data: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Tensors [learners, *shape] of the type and shape of one, from bytes, uint8 [learners, size]."""
    shape = [data.shape[0], *like.shape]
    if like.dtype == tf.bool:
        return tf.reshape(tf.cast(data, tf.bool), shape)
    if like.dtype.size == 1:
        return tf.bitcast(tf.reshape(data, shape), like.dtype)
    return tf.bitcast(tf.reshape(data, [*shape, like.dtype.size]), like.dtype)


def _join(tensors: tf.Tensor, axis: int) -> tf.Tensor:
    """Joins tensors [learners, ...] along an axis."""
    return tf.concat(tf.unstack(tensors), axis)
