"""Reductions in graphs: what learners in processes of their own get, their order, and errors."""

import json
import os
import re
import signal

import numpy as np
import pytest
import tensorflow as tf

from agents import stop_signals
from agents.distributed.cluster import Cluster
from agents.distributed.collective_reducer import CollectiveReducer
from agents.distributed.shared_exchange import EndedLearner, shared_bytes
from agents.distributed.shared_reducer import SharedReducer
from agents.errors import LearnerLostError, UsageError
from agents.settings.config_file import load_config
from agents.version import __version__
from agents.workers.shared_block import create_anonymous_file
from tests.distributed.learners import run_together
from tests.fingerprint import fingerprint

# Shapes of leaves by type, of what is gathered.
GATHERED = {
    "bool": [4, 2],
    "int32": [1, 2, 3],
    "int64": [2, 1],
    "float32": [3, 5],
    "float64": [1, 1],
    "uint8": [2, 3],
}
SHAPES = {"matrix": [3, 4], "scalar": [], "vector": [5], "nothing": [0]}


def numbers(rank, shape, dtype):
    """What a learner has: arrays of any type, among them numbers that are not finite."""
    random = np.random.default_rng(100 * rank + len(shape))
    values = random.normal(size=shape) * 1000
    if dtype == "bool":
        return values > 0
    array = np.abs(values).astype(dtype) if dtype == "uint8" else values.astype(dtype)
    if array.dtype.kind == "f" and rank:
        array[(0,) * len(shape)] = np.nan
    return array


def parts(rank, dtype):
    """What a learner sums, arrays by name."""
    return {name: numbers(0, shape, dtype) * (rank + 1) for name, shape in SHAPES.items()}


def variables(rank):
    """Variables of every type by name; those of two learners have nothing in common."""
    values = {dtype: numbers(rank, shape, dtype) for dtype, shape in GATHERED.items()}
    scalars = {
        "scalar/bool": np.bool_(rank == 0),
        "scalar/int64": np.int64(2**53 + 1 + rank),
        "scalar/float32": np.float32(0.1 + rank),
        "scalar/float64": np.float64(np.nan if rank else -np.inf),
        "uint32": np.array([2**32 - 1, rank], np.uint32),
    }
    return {name: tf.Variable(value) for name, value in {**values, **scalars}.items()}


def reduce_everything(reducer):
    """Checks the reductions of this learner; returns the fingerprint of what it got."""
    count, rank, got = reducer.num_learners, reducer.rank, {}
    assert not reducer.compiles
    for dtype in ("float32", "float64"):
        tensors = tf.nest.map_structure(tf.constant, parts(rank, dtype))
        total, mean, nothing = tf.function(
            lambda tensors=tensors: (
                reducer.sum(tensors), reducer.mean((tensors, [])), (reducer.mean({}), reducer.sum(()))
            ),
            autograph=False,
        )()  # fmt: skip
        assert nothing == ({}, ()) and mean[1] == []
        for name, part in parts(0, dtype).items():
            factor = sum(range(1, count + 1))
            np.testing.assert_allclose(total[name], factor * part, 1e-6, err_msg=name)
            np.testing.assert_allclose(mean[0][name], factor / count * part, 1e-6, err_msg=name)
            got[f"{dtype}/{name}"] = np.stack([total[name], mean[0][name]])
    for axis in (0, 1):
        own = {dtype: numbers(rank, shape, dtype) for dtype, shape in GATHERED.items()}
        for one in (tf.function(reducer.gather, autograph=False), reducer.gather):  # Eagerly, too.
            gathered = one(tf.nest.map_structure(tf.constant, own), axis)
            for dtype, shape in GATHERED.items():
                arrays = [numbers(other, shape, dtype) for other in range(count)]
                np.testing.assert_array_equal(gathered[dtype], np.concatenate(arrays, axis))
                assert gathered[dtype].dtype == dtype
                np.testing.assert_array_equal(reducer.own(gathered[dtype], axis), own[dtype])
    assert reducer.gather({"extras": {}}) == {"extras": {}}
    copied = variables(rank)
    reducer.copy_from_chief(copied)
    assert fingerprint(copied) == fingerprint(variables(0))
    check_order(reducer)
    check_stop(reducer)
    return fingerprint(got)


def check_order(reducer):
    """Reductions that need nothing of each other: a loop, what follows it, and another graph."""
    variable = tf.Variable(tf.zeros([3]))

    def one_turn(index):
        variable.assign_add(reducer.mean(tf.fill([3], float(reducer.rank))))
        return (index + 1,)

    def run(tensor):
        tf.while_loop(lambda index: index < 20, one_turn, [tf.constant(0)])
        after = reducer.sum(tensor)
        return inner(tensor), after

    inner = tf.function(lambda tensor: reducer.gather((tensor, variable + 1)), autograph=False)
    run = tf.function(run, autograph=False)
    count = reducer.num_learners
    for executor in ("SINGLE_THREADED_EXECUTOR", ""):
        variable.assign(tf.zeros([3]))
        with tf.experimental.function_executor_type(executor):
            (_, gathered), after = run(tf.ones([1]))
        assert after.numpy() == [count]
        np.testing.assert_allclose(gathered, np.full(3 * count, 20 * (count - 1) / 2 + 1))


def check_stop(reducer):
    """A signal to the last learner, in an iteration of all, stops all before the next."""
    with stop_signals.handling("it stops"):
        with reducer.raising():
            if reducer.rank == reducer.num_learners - 1:
                os.kill(os.getpid(), signal.SIGHUP)
            with stop_signals.graph_call():
                total = reducer.sum(tf.ones([2]))
        assert total.numpy().tolist() == [reducer.num_learners] * 2
        with pytest.raises(stop_signals.StopRequested) as raised, reducer.raising():
            pytest.fail("it was not stopped")
        assert raised.value.signum == signal.SIGHUP
        assert not stop_signals.requested


def leave_early(reducer):
    """The chief is interrupted between two iterations, while the others wait for the next."""
    reducer.copy_from_chief({"weight": tf.Variable(1.0)})
    if reducer.rank == 0:
        reducer.leave(stop_signals.StopRequested(signal.SIGTERM))
        return signal.SIGTERM
    with pytest.raises(stop_signals.StopRequested) as raised, reducer.raising():
        pytest.fail("it was not stopped")
    return raised.value.signum


def fail_early(reducer):
    """The last learner fails before an iteration; the others are told why, also in their copy."""
    weights = {"weight": tf.Variable(1.0)}
    if reducer.rank == reducer.num_learners - 1:
        reducer.copy_from_chief(weights)
        reducer.leave(ValueError("the simulator has crashed\nin many lines"))
        return ""
    with pytest.raises(LearnerLostError) as raised:
        reducer.copy_from_chief(weights)
        with reducer.raising():
            pytest.fail("nothing was lost")
    return str(raised.value)


def use(reducer, config):
    results = [reduce_everything(reducer), leave_early(reducer)]
    return results if isinstance(reducer, SharedReducer) else [*results, fail_early(reducer)]


@pytest.mark.parametrize(("num_learners", "kind"), [(2, "shared"), (3, "collective")])
def test_learners_get_the_same_bits_leave_together_and_tell_why_they_fail(num_learners, kind):
    fingerprints, signals, *losses = zip(*run_together(use, num_learners, kind), strict=True)
    assert len(fingerprints) == num_learners and len(set(fingerprints)) == 1
    assert signals == (signal.SIGTERM,) * num_learners
    lost = "learner 2 on 127.0.0.1 failed: the simulator has crashed"
    assert losses == ([(lost, lost, "")] if kind == "collective" else [])


# Reductions of one learner.


def test_errors_of_one_learner():
    memory = create_anonymous_file(shared_bytes(2))
    reducer = SharedReducer(Cluster(1, 2, memory=memory))
    ended = EndedLearner(memory)
    os.close(memory)
    for tensors, message in [
        ((np.float32(1), np.float64(1)), "floating point type, got float32, float64"),
        ((np.int32(1),), "floating point type, got int32"),
        ((np.float32(1), np.array([True])), "floating point type, got bool, float32"),
    ]:
        for method in (reducer.mean, reducer.sum):
            with pytest.raises(ValueError, match=message):  # The other learner is not waited for.
                method(tf.nest.map_structure(tf.constant, tensors))
    reducer._agree_on_stop = lambda signum: 0
    ended.note(0)
    for method in (reducer.mean, reducer.sum, reducer.gather):
        reduce = tf.function(method, autograph=False)
        with pytest.raises(LearnerLostError, match="learner 0 .the chief."), reducer.raising():
            reduce(tf.ones([3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="mine"), reducer.raising():
        tf.debugging.assert_equal(1, 2, "mine")
    with pytest.raises(tf.errors.OpError):  # It does not compile.
        tf.function(reducer.sum, jit_compile=True, autograph=False)(tf.ones([3]))


# Collective operations.


class Alone(CollectiveReducer):
    """A reducer of a cluster that was not joined, to read errors with."""

    def __init__(self, rank, num_learners, received=()):
        addresses = tuple(f"10.0.0.{number}:22" for number in range(num_learners))
        self.rank, self._cluster = rank, Cluster(rank, num_learners, addresses)
        self._received = iter(received)

    def _gather(self, data):
        return next(self._received)


ABORTED = "Collective ops is aborted by: "
RESET = (
    ABORTED + "{}\nAdditional GRPC error information from remote target "
    "/job:worker/replica:0/task:2 while calling /tensorflow.WorkerService/RecvBuf:\n"
)
OWN = "{{function_node __wrapped__CollectiveReduceV2_device_/job:worker/replica:0/task:1/CPU:0}} "
HEARTBEATS = (
    ABORTED + "Error reported from /job:worker/task:2: The following tasks are "
    "unhealthy (stopped sending heartbeats):\n/job:worker/replica:0/task:2\nThe tasks have crashed."
)
SERVICE = ABORTED + "Deadline Exceeded\n\nRPC: /tensorflow.CoordinationService/Heartbeat"
FAILED = "Error reported from /job:worker/task:2: a learner has failed: no simulator\nMore"


@pytest.mark.parametrize(("kind", "message", "rank", "cause"), [
    (tf.errors.UnavailableError, OWN + RESET.format("recvmsg:Connection reset by peer"), 2,
     "closed its connection"),
    (tf.errors.UnavailableError, RESET.format("Socket closed"), 2, "closed its connection"),
    (tf.errors.UnavailableError, RESET.format("sendmsg: Broken pipe (32)"), 2, "closed its connection"),
    (tf.errors.UnavailableError, HEARTBEATS, 2, "has not answered for 10 s"),
    (tf.errors.DeadlineExceededError, SERVICE, 0, "has not answered for 10 s"),
    (tf.errors.UnavailableError, ABORTED + FAILED, 2, "failed: no simulator"),
    (tf.errors.AbortedError, ABORTED + "a\nreason", 0, f"was lost: {ABORTED}a reason"),
    (tf.errors.CancelledError, RESET.format("cancelled"), 2, "was lost: "),
    (tf.errors.InternalError, RESET.format("odd"), 2, "was lost: "),
    (tf.errors.InternalError, "of a compiled program", None, None),
    (tf.errors.InvalidArgumentError, ABORTED, None, None),
])  # fmt: skip
def test_errors_of_collective_operations_name_a_learner(kind, message, rank, cause):
    with (
        pytest.raises(LearnerLostError if cause else kind) as raised,
        Alone(1, 3)._raising_lost(),
    ):
        raise kind(None, None, message)
    if cause:
        lost = raised.value
        assert (lost.rank, lost.host) == (rank, f"10.0.0.{rank}")
        assert lost.cause.startswith(cause) and len(str(lost).splitlines()) == 1


def test_other_settings_and_versions_are_named():
    config = load_config("pendulum")
    own = {"version": __version__, **config.model_dump(mode="json")}

    def check(rank, **changed):
        texts = [json.dumps(one).encode() for one in (own, {**own, **changed})]
        sizes = np.array([len(text) for text in texts], np.int32).reshape(-1, 1).view(np.uint8)
        rows = [np.frombuffer(text.ljust(max(map(len, texts))), np.uint8) for text in texts]
        Alone(rank, 2, [tf.constant(sizes), tf.constant(np.stack(rows))])._check_settings(config)

    for rank in (0, 1):
        check(rank, threads=7, num_processes=3)
        for name, value in {"learning_rate": 0.5, "version": "0.0.1", "layers": [8]}.items():
            named = re.escape(f"learner 1 on 10.0.0.1 has the {name} {value!r}, the chief has")
            with pytest.raises(UsageError, match=named):
                check(rank, **{name: value})
