"""Learners on the nodes of a Ray cluster: their places, start and end. See `ray_session` first.

Ray places an actor for each learner, which holds its CPUs and GPUs, starts it as a process beside
itself and passes on its output. The command itself starts the chief on its own node, which has
the console and the run's folder. Learners reduce arrays by TensorFlow's server, see
`agents.distributed`; Ray carries none of them.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ray
from ray.exceptions import ActorUnavailableError, ActorUnschedulableError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from agents.distributed.cluster import Address, Cluster, check_trusted
from agents.distributed.launcher import LearnerProcess, LocalProcess
from agents.errors import UsageError, clip
from agents.stop_signals import StopRequested, handled_by

# Seconds for Ray to place learners again after one was lost, of which it may need most to notice
# that a node is dead, and to end actors that were killed.
PLACE_AGAIN_SECONDS = 30.0
_END_SECONDS = 5.0

_PATIENCE_SECONDS = 2.0  # Until a wait is announced.
_POLL_SECONDS = 0.1

# Variables with these prefixes are those of the command on all nodes: they change what is computed.
_PREFIXES = ("TF_", "XLA_", "KERAS_", "MUJOCO_")


class Seat(NamedTuple):
    """CPUs and GPUs of a node that Ray has reserved for a learner.

    Attributes:
      actor: Actor that holds them.
      host: The node's IP address.
      node: The node's id.
      variables: Environment variables that name the GPUs.
    """

    actor: Any
    host: str
    node: str
    variables: dict[str, str]


class LearnerActor:
    """Runs on the learner's node, in a process of Ray, which the learner does not survive."""

    def __init__(self) -> None:
        """Ends with the node: Ray takes a zombie for alive."""
        threading.Thread(target=_exit_without, args=(os.getppid(),), daemon=True).start()

    def describe(self) -> tuple[str, str, dict[str, str]]:
        """Returns host, node and variables of the `Seat`."""
        gpus = ",".join(str(each) for each in ray.get_gpu_ids())
        node = ray.get_runtime_context().get_node_id()
        return ray.util.get_node_ip_address(), node, {"CUDA_VISIBLE_DEVICES": gpus}

    def free_port(self) -> int:
        """Returns a port of this node that no program listens at."""
        with socket.create_server(("", 0)) as listener:
            port: int = listener.getsockname()[1]
        return port

    def run(
        self,
        task: dict[str, Any],
        cluster: Cluster,
        path: list[str],
        folder: str,
        variables: dict[str, str],
    ) -> Iterator[tuple[str, Any]]:
        """Starts a learner; yields its process id, the lines that it prints, and how it ends.

        Args:
          task: Settings of the learner, see `LocalProcess`.
          cluster: The learners.
          path: Folders that the command imports modules from, besides those of Python.
          folder: The command's working folder.
          variables: The command's environment variables that learners need.
        """
        # Finds modules as the command does, where their folders are there.
        there = [each for each in path if os.path.exists(each)]
        sys.path[:] = there + [each for each in _without_ray(sys.path) if each not in there]
        with contextlib.suppress(OSError):
            os.chdir(folder)
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        variables = {**variables, **self.describe()[2]}
        process = LocalProcess(task, cluster, is_quiet=True, show=lines.put, variables=variables)
        self._process = process
        yield "process", process.pid
        while True:
            code = process.poll()
            try:
                yield "line", lines.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if code is not None:
                    yield "end", (code, process.loss, process.failure)
                    return

    def send_signal(self, signum: int) -> None:
        """Sends a signal to the learner."""
        self._process.send_signal(signum)


class RemoteLearner:
    """A learner on a node of Ray; see `LearnerProcess`."""

    def __init__(self, seat: Seat, task: dict[str, Any], cluster: Cluster):
        """Starts it."""
        self.name, self.host, self.pid = f"learner {cluster.rank}", seat.host, 0
        self.failure = self.loss = ""
        self._actor = seat.actor
        self._code: int | None = None
        folders = [os.path.abspath(path) for path in sys.path]  # "" is the working folder.
        pythons = tuple(os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix))
        output = seat.actor.run.options(num_returns="streaming").remote(
            task,
            cluster,
            path=[path for path in folders if not path.startswith(pythons)],
            folder=os.getcwd(),
            variables={
                name: value
                for name, value in os.environ.items()
                if name.startswith(_PREFIXES) and name != "TF_CONFIG"
            },
        )
        self._thread = threading.Thread(target=self._follow, args=(output,), daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        """See `LearnerProcess`; it counts as killed if Ray has lost it."""
        return self._code

    def send_signal(self, signum: int) -> None:
        """See `LearnerProcess`."""
        self._actor.send_signal.remote(signum)

    def kill(self) -> None:
        """See `LearnerProcess`; also where the node does not answer, whose Ray does it later."""
        if self._code is None:
            self._code = -signal.SIGKILL
        ray.kill(self._actor)

    def join(self, timeout: float) -> None:
        """Waits until Ray has ended the actor."""
        self._thread.join(timeout)

    def _follow(self, output: Iterator[Any]) -> None:
        """Prints the lines of the learner until it ends."""
        try:
            for reference in output:
                kind, value = ray.get(reference)
                if kind == "process":
                    self.pid = value
                elif kind == "line":
                    print(f"{self.name}: {value.rstrip()}", file=sys.stderr, flush=True)
                elif self._code is None:
                    code, self.loss, self.failure = value
                    self._code = code
        except RayError as error:
            if self._code is None:
                self.failure = f"was lost: {_why_lost(error)}"
                self.kill()  # It may be there, and out of reach for a while.


class RayCluster:
    """Places for learners on the nodes of Ray."""

    def __init__(self, num_cpus: int, num_gpus: float, trusts_network: bool = False):
        """Places nothing yet; this process is connected with Ray.

        Args:
          num_cpus: CPUs for each learner.
          num_gpus: GPUs for each learner; a fraction is shared.
          trusts_network: Whether nodes may have public addresses.
        """
        self._trusts_network = trusts_network
        self._resources = {"num_cpus": num_cpus, "num_gpus": num_gpus}
        wanted = {"CPU": num_cpus, "GPU": num_gpus}
        self._wanted = {name: count for name, count in wanted.items() if count}
        self._seats: list[Seat] = []  # The chief's is the first.
        self._learners: list[RemoteLearner] = []
        self._failure = ""  # Why an actor could not be started.
        sys.path[:] = _without_ray(sys.path)

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(self, *error: object) -> None:
        self._vacate(0)

    def place(self, num_learners: int, timeout: float) -> None:
        """Reserves CPUs and GPUs: the chief's on this node, those of others on any.

        Args:
          num_learners: How many learners to place.
          timeout: Seconds that Ray may take, as for new nodes.

        Raises:
          UsageError: There is no place for all.
          KeyboardInterrupt: A signal asked this process to stop.
        """
        deadline = time.monotonic() + timeout
        with handled_by(_interrupt):
            here = ray.get_runtime_context().get_node_id()
            strategy = NodeAffinitySchedulingStrategy(here, soft=False)
            self._seats = self._reserve(1, strategy, deadline)
            if self._seats:
                self._seats += self._reserve(num_learners - 1, "SPREAD", deadline)
        if len(self._seats) == num_learners:
            return
        total, free = ray.cluster_resources(), ray.available_resources()
        each = " and ".join(f"{count:g} {name}" for name, count in self._wanted.items())
        there = ", ".join(
            f"{total.get(name, 0):g} {name} of which {free.get(name, 0):g} are free"
            for name in self._wanted
        )
        num_nodes = sum(node["Alive"] for node in ray.nodes())
        raise UsageError(
            f"Ray has place for {len(self._seats)} of {num_learners} learners"
            f"{self._failure and ': '}{self._failure}\n"
            f"each learner needs {each}, the first one on this node\n"
            f"nodes: {num_nodes}, in total with {there}"
        )

    def place_again(self, num_learners: int) -> int:
        """Releases all places but the chief's, and reserves others on the remaining nodes.

        Returns:
          Number of learners that found a place, at most as many as wanted.

        Raises:
          KeyboardInterrupt: A signal asked this process to stop.
        """
        self._vacate(1)
        deadline = time.monotonic() + PLACE_AGAIN_SECONDS
        with handled_by(_interrupt):
            self._seats += self._reserve(num_learners - 1, "SPREAD", deadline, self._capacity)
        return len(self._seats)

    def start(self, task: dict[str, Any], num_learners: int) -> list[LearnerProcess]:
        """Starts learners where `place` has found place for them; the chief is the first.

        Raises:
          UsageError: A node has a public address.
        """
        self._vacate(num_learners)
        # Neighbors in the ring are on one node where that is possible.
        here = self._seats[0]
        seats = sorted(
            self._seats, key=lambda seat: (seat is not here, seat.node != here.node, seat.node)
        )
        print(f"Learners on {', '.join(seat.host for seat in seats)}", file=sys.stderr)
        ports = ray.get([seat.actor.free_port.remote() for seat in seats])
        addresses = tuple(
            str(Address(seat.host, port)) for seat, port in zip(seats, ports, strict=True)
        )
        if not self._trusts_network:
            check_trusted(addresses)
        cluster = Cluster(0, num_learners, addresses)
        chief = LocalProcess(task, cluster, is_quiet=False, variables=here.variables)
        self._learners = [
            RemoteLearner(seat, task, cluster._replace(rank=rank))
            for rank, seat in enumerate(seats[1:], 1)
        ]
        return [chief, *self._learners]

    def _reserve(
        self,
        count: int,
        strategy: object,
        deadline: float,
        capacity: Callable[[], int] | None = None,
    ) -> list[Seat]:
        """Starts actors; returns the seats of all that Ray has placed in time.

        Args:
          count: How many to start.
          strategy: Which nodes Ray takes.
          deadline: How long to wait.
          capacity: With how many learners altogether to be content.
        """
        actor_type = ray.remote(max_concurrency=4)(LearnerActor)
        options = {**self._resources, "scheduling_strategy": strategy}
        pending: dict[Any, Any] = {}
        seats: list[Seat] = []
        is_announced = False
        try:
            while len(seats) < count and (left := deadline - time.monotonic()) > 0:
                for _ in range(count - len(seats) - len(pending)):
                    actor = actor_type.options(**options).remote()
                    pending[actor.describe.remote()] = actor
                ready, _ = ray.wait(list(pending), timeout=min(left, _PATIENCE_SECONDS))
                if not ready and not is_announced:
                    is_announced = True
                    print(f"Waiting up to {left:.0f} s for Ray to place learners", file=sys.stderr)
                for reference in ready:
                    actor = pending.pop(reference)
                    try:
                        seats.append(Seat(actor, *ray.get(reference)))
                    except RayError as error:
                        self._failure = _why_lost(error)
                        if "node has died" not in str(error):
                            count -= 1  # Another one would fail as well.
                if capacity:
                    count = min(count, capacity() - len(self._seats))
        finally:
            for actor in pending.values():
                ray.kill(actor)
        return seats

    def _capacity(self) -> int:
        """Returns the number of learners that the nodes would hold without other work."""
        return sum(
            int(min(node["Resources"].get(name, 0) / each for name, each in self._wanted.items()))
            for node in ray.nodes()
            if node["Alive"]
        )

    def _vacate(self, count: int) -> None:
        """Ends all actors but the first ones, and the learners that they have started."""
        for seat in self._seats[count:]:
            ray.kill(seat.actor)
        del self._seats[count:]
        deadline = time.monotonic() + _END_SECONDS
        for learner in self._learners:
            learner.join(max(deadline - time.monotonic(), 0.0))
        self._learners = []


def _interrupt(signum: int, frame: object) -> None:
    """Handler of signals while Ray places learners."""
    raise StopRequested(signum)


def _exit_without(parent: int) -> None:
    """Ends this process when its parent is dead."""
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


def _without_ray(path: list[str]) -> list[str]:
    """A search path without Ray's own versions of packages, which learners do not need."""
    return [each for each in path if not each.startswith(os.path.dirname(ray.__file__))]


def _why_lost(error: RayError) -> str:
    """Returns Ray's reason for the end of an actor, in one line."""
    if isinstance(error, ActorUnavailableError):  # Ray takes a while to call a node dead.
        return "Ray can't reach it, as if its node was gone"
    if isinstance(error, ActorUnschedulableError):
        return "this node has too few CPUs or GPUs"
    lines = [line for line in str(error).splitlines() if line and not line.startswith("\t")]
    reason = next((line for line in lines if "because" in line), lines[0])
    if "creation task" in reason:
        reason = lines[-1]
    return clip(reason.partition(" Some common causes")[0])
