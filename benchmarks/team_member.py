"""What a learner of a `Team` runs: iterations of a training, or reductions alone."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agents.graph.graph_calls import GraphCalls
from agents.runs.training_statistics import TimeShares
from benchmarks import library
from benchmarks.contestant import Measure, Measurement
from benchmarks.exchange_watch import WatchedExchange
from benchmarks.seat import Seat
from benchmarks.workloads import WORKLOADS

if TYPE_CHECKING:
    import tensorflow as tf

    from agents.distributed.team_reducer import TeamReducer
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
    if not (own.memory or own.addresses):
        config = workload.config(1)
        with library.learner(config, 1, _parted_learner) as learner:
            yield _Iterations(learner, None)
        return
    config = workload.config(own.num_learners, reduce_every)
    reducer = own.make_reducer(config)
    exchange = None
    if own.memory:
        reducer.exchange = exchange = WatchedExchange(reducer.exchange)  # type: ignore[attr-defined]
    with library.learner(config, own.num_learners, lambda: reducer) as learner:
        yield _Iterations(learner, reducer, exchange)
    gc.freeze()  # Python's end would look for garbage in all of TensorFlow, for seconds.


def reductions(seat: str) -> Iterator[Measure]:
    """Measures milliseconds per reduction in the graph, by the size of the array.

    Args:
      seat: The learner's place, as JSON.
    """
    own = Seat(**json.loads(seat))
    own.take()
    reducer = own.make_reducer(WORKLOADS["tiny"].config(own.num_learners))
    yield _reduction_times(reducer)


class _Iterations:
    """Measures iterations of a learner: milliseconds, medians over a round."""

    def __init__(
        self,
        learner: Learner,
        reducer: TeamReducer | None,
        exchange: WatchedExchange | None = None,
    ):
        self._learner, self._reducer, self._exchange = learner, reducer, exchange
        self._spent = learner.time_shares = _Spent()

    def __call__(self, seconds: float) -> Measurement:
        import tensorflow as tf

        rows, start = [], time.perf_counter()
        while True:
            rows.append(self._iterate())
            is_over = time.perf_counter() - start >= seconds
            if self._reducer:  # All stop when one does.
                is_over = bool(self._reducer.sum(tf.constant([float(is_over)]))[0])
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


def _reduction_times(reducer: TeamReducer) -> Measure:
    """Measures a mean over learners."""
    import tensorflow as tf

    def make_loop(name: str, num_calls: int) -> Callable[[], tf.Tensor]:
        def one(index: tf.Tensor, array: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return index + 1, reducer.mean(array)

        def loop() -> tf.Tensor:
            start = tf.constant(0), tf.ones([SIZES[name] // 4])
            return tf.while_loop(lambda index, _: index < num_calls, one, start)[1]

        graph: Callable[[], tf.Tensor] = tf.function(loop, autograph=False)
        return graph

    calls = {name: min(max(_BYTES // SIZES[name], _MIN_CALLS), _MAX_CALLS) for name in SIZES}
    loops = {name: make_loop(name, calls[name]) for name in SIZES}

    graph_calls = GraphCalls(convolves=False)

    def measure(seconds: float) -> Measurement:
        parts = {}
        with graph_calls:
            loops[next(iter(SIZES))]()  # Until all learners have been asked.
            for name, loop in loops.items():
                start = time.perf_counter()
                loop()
                parts[f"ms at {name}"] = 1e3 * (time.perf_counter() - start) / calls[name]
        return Measurement(parts[f"ms at {FIGURE}"], parts=parts)

    return measure
