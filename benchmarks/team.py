"""Learners in processes of their own that measure something together, each on a core or on all."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from agents.distributed.shared_exchange import shared_bytes
from agents.workers.shared_block import create_anonymous_file
from benchmarks.case import Contestant
from benchmarks.contestant import Measurement
from benchmarks.machine import cores
from benchmarks.runner import ContestantProcess
from benchmarks.seat import Seat

# How learners reduce arrays: not at all; in shared memory; by TensorFlow's collective operations.
APART, MEMORY, TENSORFLOW = "apart", "memory", "TensorFlow"

_LOOPBACK = "127.0.0.1"

T = TypeVar("T")


class Team:
    """The processes of learners; see `benchmarks.team_member` for what they run."""

    def __init__(
        self,
        function: str,
        settings: Mapping[str, str | int],
        num_learners: int,
        transport: str,
        own_cores: bool = False,
    ):
        """Starts the processes, and waits until all are ready.

        Args:
          function: The generator function that each of them runs, as `module:function`.
          settings: Its keyword arguments besides `seat`.
          num_learners: How many there are.
          transport: One of the constants of this module.
          own_cores: Whether each learner has a core of its own, instead of sharing all.

        Raises:
          ContestantError: A learner failed.
        """
        self._processes: list[ContestantProcess] = []
        with contextlib.ExitStack() as stack:
            seats = _seats(stack, num_learners, transport, own_cores)
            self._pool = stack.enter_context(ThreadPoolExecutor(num_learners))
            stack.callback(lambda: self._each(ContestantProcess.close))
            for seat in seats:
                own = {**settings, "seat": json.dumps(seat._asdict())}
                contestant = Contestant(f"learner {seat.rank}", function, own)
                self._processes.append(ContestantProcess(contestant, own_session=False))
            self._each(ContestantProcess.wait_until_ready)
            self._stack = stack.pop_all()

    def measure(self, seconds: float) -> list[Measurement]:
        """Lets all learners measure at the same time, and returns what each did."""
        return self._each(lambda process: process.measure(seconds))

    def close(self) -> None:
        """Ends the processes."""
        self._stack.close()

    def _each(self, request: Callable[[ContestantProcess], T]) -> list[T]:
        return list(self._pool.map(request, self._processes))


def _seats(
    stack: contextlib.ExitStack, num_learners: int, transport: str, own_cores: bool
) -> list[Seat]:
    memory = ""
    if transport == MEMORY:
        descriptor = create_anonymous_file(shared_bytes(num_learners))
        stack.callback(os.close, descriptor)
        memory = f"/proc/{os.getpid()}/fd/{descriptor}"
    ports = free_ports(num_learners) if transport == TENSORFLOW else []
    seat = Seat(
        rank=0,
        num_learners=num_learners,
        addresses=[f"{_LOOPBACK}:{port}" for port in ports],
        memory=memory,
        core=-1,
    )
    return [
        seat._replace(rank=rank, core=cores()[rank] if own_cores else -1)
        for rank in range(num_learners)
    ]


def free_ports(count: int) -> list[int]:
    """Returns ports that no program listens at just now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((_LOOPBACK, 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
