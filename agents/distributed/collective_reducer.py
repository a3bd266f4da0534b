"""Several learners on machines of a network, by TensorFlow's collective operations.

TensorFlow's server, which `MultiWorkerMirroredStrategy` starts, connects the learners, and its
coordination service notices lost ones. The server executes everything that it receives: see `check_trusted`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from agents.distributed.cluster import Cluster
from agents.distributed.team_reducer import TeamReducer
from agents.errors import LearnerLostError, UsageError, clip, first_line
from agents.settings.config import Config
from agents.settings.resumption import CHANGEABLE
from agents.settings.validation import abbreviate
from agents.version import __version__

# Milliseconds after which a learner that gives no sign of life is lost.
_SILENCE_MILLISECONDS = 10_000

# Settings that may differ between learners: each looks after its own environments.
_OWN_SETTINGS = frozenset({"num_processes", "threads", "start_timeout", "step_timeout"})
assert _OWN_SETTINGS <= CHANGEABLE

# Words of TensorFlow's errors about a connection that the other end has closed.
_CLOSED = "reset by peer|Broken pipe|[Ss]ocket closed|[Ff]ailed to connect|refused"

# Prefix of the error that a failed learner reports to the others.
_FAILED = "a learner has failed: "

_LOST_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
)


def join(cluster: Cluster, timeout: float) -> None:
    """Starts TensorFlow's server and waits for the other learners; before devices are initialized.

    Args:
      cluster: The learners.
      timeout: Seconds to wait.

    Raises:
      UsageError: Some do not join in time, or the port is taken.
    """
    spec = tf.train.ClusterSpec({"worker": list(cluster.addresses)})
    _configure_coordination(cluster, timeout)
    before = signal.getsignal(signal.SIGTERM)
    try:
        tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=tf.distribute.cluster_resolver.SimpleClusterResolver(
                spec, task_type="worker", task_id=cluster.rank, rpc_layer="grpc"
            )
        )
    except (tf.errors.OpError, RuntimeError) as error:
        raise _join_error(cluster, timeout, str(error)) from None
    finally:
        # TensorFlow takes SIGTERM for a notice that the machine is taken away, and goes on.
        signal.signal(signal.SIGTERM, before)


def _join_error(cluster: Cluster, timeout: float, message: str) -> UsageError:
    if not re.search("[Dd]eadline|timed out", message):
        own, reason = cluster.addresses[cluster.rank], clip(" ".join(message.split()))
        return UsageError(
            f"learner {cluster.rank} can't start TensorFlow's server at {own}: {reason}\n"
            "expected a port that no other program has"
        )
    missing = re.findall(r"/task:(\d+)", message.partition("timed out task names")[2])
    rank = int(missing[0]) if missing else 0  # Only the chief knows the others.
    name = f"learner {rank}{'' if rank else ' (the chief)'} at {cluster.addresses[rank]}"
    return UsageError(
        f"{name} did not join within {timeout:g} s\n"
        "it has to run the same command, and all others have to reach it; see --start-timeout"
    )


def _configure_coordination(cluster: Cluster, timeout: float) -> None:
    """Sets time-outs of the coordination service, for which there is no public interface."""
    try:
        from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
        from tensorflow.python.eager import context

        process = context.context()
        process.configure_coordination_service(
            service_type="standalone",
            service_leader="/job:worker/replica:0/task:0",
            cluster_register_timeout_in_ms=round(1000 * timeout),
            heartbeat_timeout_in_ms=_SILENCE_MILLISECONDS,
            coordinated_jobs=[
                coordination_config_pb2.CoordinatedJob(
                    name="worker", num_tasks=cluster.num_learners
                )
            ],
        )
        # The time-out is that of all learners, not only of this one.
        process.coordination_service.cluster_register_with_barrier = True
    except (ImportError, AttributeError, TypeError):
        pass  # `MultiWorkerMirroredStrategy` does, with TensorFlow's own time-outs.


class CollectiveReducer(TeamReducer):
    """Combines tensors by `CollectiveReduceV2` and `CollectiveGatherV2`.

    In a ring on CPUs. Where learners compute on GPUs, sums pass through NCCL; that is untried.
    """

    def __init__(self, cluster: Cluster, config: Config):
        """Serves one learner of a cluster that it has joined.

        Raises:
          UsageError: Another learner has other settings, or another version of this library.
          LearnerLostError: Another learner has ended.
        """
        self.num_learners, self.rank = cluster.num_learners, cluster.rank
        self._cluster = cluster
        self._keys = itertools.count(1)
        self._device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
        # Graphs order operations by the resources they use: a loop and what follows it as well.
        self._order = {}
        for device in {"CPU:0", self._device}:
            with tf.device(device):
                self._order[device] = tf.Variable(0.0, trainable=False)
        self._stop_key = next(self._keys)
        with self._raising_lost():
            self._check_settings(config)

    def leave(self, error: BaseException | None) -> None:
        """See `TeamReducer`; a failure raises in the next reductions of the others."""
        super().leave(error)
        if isinstance(error, Exception) and not isinstance(error, LearnerLostError):
            with contextlib.suppress(Exception):  # No public interface.
                from tensorflow.python.eager import context

                code = tf.errors.UNAVAILABLE
                context.context().report_error_to_cluster(code, f"{_FAILED}{first_line(error)}")

    def _sum(self, flat: tf.Tensor) -> tf.Tensor:
        return self._reduce(flat, self._device)

    def _gather(self, data: tf.Tensor) -> tf.Tensor:
        size = data.shape[0]
        padded = tf.pad(data, [[0, -size % 4]])  # Collective operations take no bytes.
        with tf.device("CPU:0"):
            gathered = tf.raw_ops.CollectiveGatherV2(
                input=tf.bitcast(tf.reshape(padded, [-1, 4]), tf.int32),
                **self._arguments("CPU:0"),
            )
        by_learner = tf.reshape(tf.bitcast(gathered, tf.uint8), [self.num_learners, -1])
        return tf.ensure_shape(by_learner[:, :size], [self.num_learners, size])

    def _agree_on_stop(self, signum: int, timeout: float = 0.0) -> int:
        highest = self._reduce(
            tf.constant([signum]),
            merge_op="Max",
            timeout_seconds=timeout,
            instance_key=self._stop_key,
        )
        return int(highest[0])

    def _reduce(
        self, flat: tf.Tensor, device: str = "CPU:0", merge_op: str = "Add", **changed: float
    ) -> tf.Tensor:
        """The sum over learners of numbers [size], or their maximum."""
        with tf.device(device):
            total = tf.raw_ops.CollectiveReduceV2(
                input=flat,
                merge_op=merge_op,
                final_op="Id",
                **{**self._arguments(device), **changed},
            )
        return tf.ensure_shape(total, flat.shape)

    def _arguments(self, device: str) -> dict[str, Any]:
        """Arguments of one collective operation, the same in all its calls."""
        return {
            "communication_hint": "ring" if device == "CPU:0" else "nccl",
            "group_size": self.num_learners,
            "group_key": 1 if device == "CPU:0" else 2,
            "instance_key": next(self._keys),
            "ordering_token": [self._order[device].handle],
            "timeout_seconds": 0.0,  # None.
        }

    def _check_settings(self, config: Config) -> None:
        """Compares version and settings of all learners with the chief's."""
        settings = {"version": __version__, **config.settings()}
        own = np.frombuffer(json.dumps(settings).encode(), np.uint8)
        sizes = self._gather(tf.constant(np.array([own.size], np.int32).view(np.uint8)))
        size = int(sizes.numpy().view(np.int32).max())
        padded = np.pad(own, (0, size - own.size), constant_values=ord(" "))
        chief, *others = [
            json.loads(row.tobytes()) for row in self._gather(tf.constant(padded)).numpy()
        ]
        for rank, other in enumerate(others, 1):
            for name in chief.keys() | other.keys():
                pair = other.get(name), chief.get(name)
                if name not in _OWN_SETTINGS and pair[0] != pair[1]:
                    theirs, its = map(abbreviate, pair)
                    raise UsageError(
                        f"learner {rank} on {self._cluster.host(rank)} has the {name} {theirs}, "
                        f"the chief has {its}"
                    )

    @contextlib.contextmanager
    def _raising_lost(self) -> Iterator[None]:
        try:
            yield
        except _LOST_ERRORS as error:
            message = str(error)
            if "ollective" not in message:
                raise
            raise self._lost_error(message) from None

    def _lost_error(self, message: str) -> LearnerLostError:
        """Names the learner that a message of TensorFlow names."""
        named = [int(number) for number in re.findall(r"/task:(\d+)", message)]
        # The first one is the cause of the others. Without a name, the chief's service has failed.
        rank = next((each for each in named if each != self.rank), 0 if self.rank else 1)
        if _FAILED in message:
            cause = "failed: " + message.partition(_FAILED)[2].splitlines()[0]
        elif "heartbeat" in message.lower():
            cause = f"has not answered for {_SILENCE_MILLISECONDS // 1000} s"
        elif re.search(_CLOSED, message):
            cause = "closed its connection"
        else:
            cause = f"was lost: {clip(' '.join(message.split()))}"
        return LearnerLostError(rank, self._cluster.host(rank), cause)
