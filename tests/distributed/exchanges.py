"""Learners in threads, and what they exchange arrays with, for tests."""

import contextlib
import os
import socket
import threading

from agents.distributed import shared_exchange
from agents.distributed.ring_exchange import RingExchange
from agents.distributed.shared_exchange import SharedExchange
from agents.errors import LearnerLostError
from agents.shared_memory.shared_block import create_anonymous_file

KINDS = ["shared", "ring"]


def together(*functions, seconds=10):
    """Runs functions at the same time, each in a thread; returns their results or exceptions."""
    outcomes = [TimeoutError("is still running")] * len(functions)

    def run(index, function):
        try:
            outcomes[index] = function()
        except BaseException as error:
            outcomes[index] = error

    threads = [
        threading.Thread(target=run, args=item, daemon=True) for item in enumerate(functions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    return outcomes


def results(*functions, seconds=10):
    """As `together`, but raises the first exception."""
    outcomes = together(*functions, seconds=seconds)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


class CalmWatch:
    """Knows of no losses, but for the error that it is given.

    Attributes:
      error: What `check` raises.
      num_checks: How often that was called.
    """

    def __init__(self):
        self.error, self.num_checks = None, 0

    def check(self):
        self.num_checks += 1
        if self.error is not None:
            raise self.error

    def lost(self, rank, error):
        return LearnerLostError(rank, "test", str(error))


def connected_pair():
    """Two ends of a TCP connection: who has connected, and who has accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pair = socket.create_connection(listener.getsockname()), listener.accept()[0]
    for one in pair:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return pair


@contextlib.contextmanager
def exchanges(kind, num_learners, watch=None, make_pair=connected_pair):
    """Yields the exchanges of learners in this process, by rank."""
    watch = watch or CalmWatch()
    if kind == "shared":
        memory = create_anonymous_file(shared_exchange.shared_bytes(num_learners))
        made = [SharedExchange(memory, rank, num_learners, watch) for rank in range(num_learners)]
        os.close(memory)
    else:
        pairs = [make_pair() for _ in range(num_learners)]  # From each rank to the next.
        made = [
            RingExchange(pairs[rank][0], pairs[rank - 1][1], rank, num_learners, watch)
            for rank in range(num_learners)
        ]
    try:
        yield made
    finally:
        for exchange in made:
            exchange.close()
