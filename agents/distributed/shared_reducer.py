"""Several learners on one machine, by memory that their processes share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from agents.distributed.cluster import Cluster
from agents.distributed.shared_exchange import SharedExchange
from agents.distributed.team_reducer import TeamReducer
from agents.graph.python_call import PythonCall


class SharedReducer(TeamReducer):
    """Combines tensors by a `SharedExchange`, called from graphs.

    Attributes:
      exchange: The exchange.
    """

    def __init__(self, cluster: Cluster):
        """Serves one learner; its cluster has a descriptor of the memory."""
        assert cluster.memory is not None
        self.num_learners, self.rank = cluster.num_learners, cluster.rank
        self.exchange = SharedExchange(cluster.memory, cluster.rank, cluster.num_learners)
        self._failure: BaseException | None = None
        # Graphs order operations by the variables they use: a loop and what follows it as well.
        with tf.device("CPU:0"):
            self._turn = tf.Variable(0, trainable=False)
        self._calls: list[PythonCall] = []  # They have to live as long as the graphs.

    def _sum(self, flat: tf.Tensor) -> tf.Tensor:
        return self._call(self.exchange.sum, flat, flat.shape)

    def _gather(self, data: tf.Tensor) -> tf.Tensor:
        return self._call(self.exchange.gather, data, [self.num_learners, *data.shape])

    def _agree_on_stop(self, signum: int, timeout: float = 0.0) -> int:
        return int(self.exchange.gather(np.array([signum], np.uint8)).max())

    @contextlib.contextmanager
    def _raising_lost(self) -> Iterator[None]:
        self._failure = None
        try:
            yield
        except tf.errors.OpError:
            if self._failure is None:
                raise
            raise self._failure from None

    def _call(
        self, function: Callable[[np.ndarray], np.ndarray], argument: tf.Tensor, shape: list[int]
    ) -> tf.Tensor:
        """Calls a function of one array, after the calls that were traced before."""

        def guarded(array: np.ndarray) -> np.ndarray:
            try:
                return function(array)
            except BaseException as failure:
                self._failure = failure
                raise

        self._calls.append(PythonCall(guarded))
        with tf.control_dependencies([self._turn.read_value()]):
            result = self._calls[-1].operation([argument], argument.dtype, shape)
        with tf.control_dependencies([result]):
            self._turn.assign_add(1)
        return result
