"""What a learner of a `Team` runs: iterations of a training, or reductions alone."""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from agents.runtime.graph_calls import GraphCalls
from agents.runtime.tensorflow_setup import start_tensorflow
from agents.tensorflow_messages import quiet_tensorflow
from agents.tracking.time_shares import TimeShares
from benchmarks import library
from benchmarks.contestant import Measure, Measurement
from benchmarks.exchange_watch import WatchedExchange
from benchmarks.seat import Seat
from benchmarks.team import APART
from benchmarks.workloads import WORKLOADS

if TYPE_CHECKING:
    import tensorflow as tf

    from agents.distributed.group import Group
    from agents.learning.reduction import Reducer
    from agents.training.learner import Learner

# Bytes of the arrays of `reductions`.
SIZES = {
    "1 kB": 1_000,
    "10 kB": 10_000,
    "40 kB": 40_000,
    "200 kB": 200_000,
    "1 MB": 1_000_000,
    "8 MB": 8_000_000,
}
FIGURE = "40 kB"  # 10,000 numbers, about those of 64-64 networks.

# A measurement reduces so many bytes of each size, but neither fewer nor more arrays.
_BYTES, _MIN_CALLS, _MAX_CALLS = 4_000_000, 3, 100


def iterations(seat: str, network: str, reduce_every: str) -> Iterator[Measure]:
    """Measures milliseconds per iteration, and their parts."""
    own = Seat(**json.loads(seat))
    own.take()
    workload = WORKLOADS[network]
    if own.transport == APART:
        config = workload.config(1)
        with library.learner(config, 1, _parted_learner) as learner:
            yield _Iterations(learner, None)
        return
    config = workload.config(own.num_learners, reduce_every)
    with own.group(config) as group:

        def make_reducer() -> Reducer:
            return _watched_reducer(group)

        with library.learner(config, own.num_learners, make_reducer) as learner:
            assert isinstance(group.exchange, WatchedExchange)
            yield _Iterations(learner, group.exchange)
    gc.freeze()  # Python's end would look for garbage in all of TensorFlow, for seconds.


def reductions(seat: str, sizes: str = ",".join(SIZES)) -> Iterator[Measure]:
    """Measures milliseconds per reduction in the graph, by the size of the array.

    Args:
      seat: The learner's place, as JSON.
      sizes: Names of sizes, separated by commas; that of `FIGURE` among them.
    """
    own = Seat(**json.loads(seat))
    own.take()
    config = WORKLOADS["tiny"].config(own.num_learners)
    with own.group(config) as group:
        start_tensorflow(config.threads)
        from agents.distributed.group_reducer import GroupReducer

        group.start()
        reducer = GroupReducer(group)

        def mean(array: tf.Tensor, size: str) -> tf.Tensor:
            return reducer.mean(array)

        yield _reduction_times(mean, sizes.split(","), has_threads=False)


def tensorflow_reductions(seat: str) -> Iterator[Measure]:
    """Measures the same for TensorFlow's ring, as `MultiWorkerMirroredStrategy` sets it up.

    Its server listens at all interfaces of the machine, and executes any graph that it is sent.
    """
    own = Seat(**json.loads(seat))
    own.take()
    addresses = [f"127.0.0.1:{port}" for port in own.ports]
    task = {"type": "worker", "index": own.rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with quiet_tensorflow():
        import tensorflow as tf

        tf.config.threading.set_inter_op_parallelism_threads(2)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        # Keeps TensorFlow's server.
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=tf.distribute.experimental.CommunicationImplementation.RING
            )
        )

    def mean(array: tf.Tensor, size: str) -> tf.Tensor:
        total = tf.raw_ops.CollectiveReduceV2(
            input=array,
            group_size=own.num_learners,
            group_key=1,
            instance_key=[*SIZES].index(size),
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint="ring",
            timeout_seconds=60.0,
        )
        return total / own.num_learners

    yield _reduction_times(mean, [*SIZES], has_threads=True)
    del strategy


class _Iterations:
    """Measures iterations of a learner: milliseconds, medians over a round."""

    def __init__(self, learner: Learner, exchange: WatchedExchange | None):
        self._learner, self._exchange = learner, exchange
        self._spent = learner.time_shares = _Spent()

    def __call__(self, seconds: float) -> Measurement:
        rows, start = [], time.perf_counter()
        while True:
            rows.append(self._iterate())
            is_over = time.perf_counter() - start >= seconds
            if self._exchange:  # All stop when the chief does.
                is_over = bool(self._exchange.broadcast(np.array([is_over], np.uint8))[0])
            if is_over:
                break
        parts = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
        return Measurement(parts.pop("ms iteration"), parts=parts)

    def _iterate(self) -> dict[str, float]:
        self._spent.seconds.clear()
        if self._exchange:
            self._exchange.clear()
        start = time.perf_counter()
        self._learner.iterate()
        row = {
            "ms iteration": 1e3 * (time.perf_counter() - start),
            "ms collecting": 1e3
            * (self._spent.seconds["environments"] + self._spent.seconds["acting"]),
            "ms update": 1e3 * self._spent.seconds["learning"],
        }
        if self._exchange:
            sums, gathers = self._exchange.sums, self._exchange.gathers
            row |= {
                "ms reductions": 1e3 * (sums.seconds + gathers.seconds),
                "sums": sums.calls,
                "MB summed": sums.num_bytes / 1e6,
                "gathers": gathers.calls,
                "MB gathered": gathers.num_bytes / 1e6,
            }
        return row


class _Spent(TimeShares):
    """Seconds by what they were spent on."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def _parted_learner() -> Reducer:
    """Combines nothing, but keeps iterations in two programs, so that the parts can be told."""
    from agents.learning.reduction import Reducer

    reducer = Reducer()
    reducer.compiles = False
    return reducer


def _watched_reducer(group: Group) -> Reducer:
    from agents.distributed.group_reducer import GroupReducer

    group.start()
    group.exchange = WatchedExchange(group.exchange)
    return GroupReducer(group)


def _reduction_times(
    mean: Callable[[tf.Tensor, str], tf.Tensor], names: list[str], has_threads: bool
) -> Measure:
    """Measures a mean over learners.

    Args:
      mean: A function of an array and of the name of its size.
      names: Names of sizes.
      has_threads: Whether it needs TensorFlow's threads besides the calling one.
    """
    import tensorflow as tf

    def make_loop(name: str, num_calls: int) -> Callable[[], tf.Tensor]:
        def one(index: tf.Tensor, array: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return index + 1, mean(array, name)

        def loop() -> tf.Tensor:
            start = tf.constant(0), tf.ones([SIZES[name] // 4])
            return tf.while_loop(lambda index, _: index < num_calls, one, start)[1]

        graph: Callable[[], tf.Tensor] = tf.function(loop, autograph=False)
        return graph

    calls = {name: min(max(_BYTES // SIZES[name], _MIN_CALLS), _MAX_CALLS) for name in names}
    loops = {name: make_loop(name, calls[name]) for name in names}

    graph_calls = GraphCalls(convolves=has_threads)

    def measure(seconds: float) -> Measurement:
        parts = {}
        with graph_calls:
            loops[names[0]]()  # Until all learners have been asked.
            for name, loop in loops.items():
                start = time.perf_counter()
                loop()
                parts[f"ms at {name}"] = 1e3 * (time.perf_counter() - start) / calls[name]
        return Measurement(parts[f"ms at {FIGURE}"], parts=parts)

    return measure
