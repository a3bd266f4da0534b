"""Learners that meet, for tests."""

import contextlib
import os
import socket
import time

from agents.distributed.cluster import Address, listen
from agents.distributed.group import Group
from agents.distributed.rendezvous import Place, meet
from agents.distributed.shared_exchange import shared_bytes
from agents.errors import LearnerLostError
from agents.settings.config_file import load_config
from agents.shared_memory.shared_block import create_anonymous_file
from agents.version import __version__
from tests.distributed.exchanges import results

KEY = b"what all learners know"


def config(**settings):
    """Settings that 1, 2, 3, 4, 6 or 12 learners can share."""
    sizes = {"num_envs": 12, "minibatch_size": 12, "start_timeout": 10}
    return load_config("default", **{**sizes, **settings})


def places(num_learners, **fields):
    """Places of learners on the loopback interface; the chief's port is open already."""
    listener = listen(Address("127.0.0.1", 0))
    chief = Address(*listener.getsockname())
    place = Place(0, num_learners, chief, chief.host, KEY)._replace(**fields)
    first = place._replace(listener=listener.detach())
    return [first, *(place._replace(rank=rank) for rank in range(1, num_learners))]


@contextlib.contextmanager
def leaving():
    """Yields a function that meets, as `meet`; closes the meetings in the end."""
    meetings = []

    def meet_for_now(*arguments):
        meetings.append(meet(*arguments))
        return meetings[-1]

    try:
        yield meet_for_now
    finally:
        for meeting in meetings:
            for connection in meeting.connections.values():
                connection.close()
            meeting.listener.close()


def num_descriptors():
    """How many files and sockets this process has open."""
    return len(os.listdir("/proc/self/fd"))


def listening(port):
    """Addresses at which this machine listens at a port, of /proc/net/tcp and tcp6."""
    found = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(f"/proc/net/{name}") as lines:
            rows = [line.split() for line in lines][1:]
        for row in rows:
            host, number = row[1].split(":")
            if row[3] == "0A" and int(number, 16) == port:
                words = [
                    bytes.fromhex(host[start : start + 8])[::-1] for start in range(0, len(host), 8)
                ]
                found.add(socket.inet_ntop(family, b"".join(words)))
    return found


@contextlib.contextmanager
def groups(kind, num_learners, *, starts=True, **settings):
    """Yields the groups of learners in this process, by rank; all leave in the end.

    Args:
      kind: How they exchange arrays, "shared" or "ring".
      num_learners: How many there are.
      starts: Whether they are started already.
      **settings: Those that are not as in `config`.
    """
    memory = None
    if kind == "shared":
        memory = create_anonymous_file(shared_bytes(num_learners))
    made = results(
        *(
            lambda place=place: Group(place, config(**settings))
            for place in places(num_learners, memory=memory)
        )
    )
    try:
        if starts:
            results(*(group.start for group in made))
        yield made
    finally:
        results(*(lambda group=group: group.leave(None) for group in made))
        if memory is not None:
            os.close(memory)


def check_lost(errors, rank, cause):
    for error in errors:
        assert isinstance(error, LearnerLostError), repr(error)
        assert (error.rank, error.host) == (rank, "127.0.0.1") and cause in error.cause
        name = f"learner {rank}{' (the chief)' if rank == 0 else ''} on 127.0.0.1"
        assert str(error) == f"{name} {error.cause}"


def wait_for(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def check_meetings(meetings):
    """All know the same members, and reach each other through the connections that they have."""
    members = meetings[0].members
    assert [meeting.rank for meeting in meetings] == list(range(len(meetings)))
    assert all(meeting.members == members for meeting in meetings)
    for meeting, member in zip(meetings, members, strict=True):
        assert member.address.port == meeting.listener.getsockname()[1]
    assert meetings[0].connections.keys() == set(range(1, len(meetings)))
    for rank, connection in meetings[0].connections.items():
        [other] = meetings[rank].connections.values()
        assert connection.send({"to": rank}) and other.receive_one(5) == {"to": rank}
        assert other.send({"from": rank}) and connection.receive_one(5) == {"from": rank}


def hello_of(rank, num_learners=2, **fields):
    return {
        "rank": rank,
        "num_learners": num_learners,
        "host": "test",
        "port": 1,
        "process": 1,
        "version": __version__,
        "config": config().model_dump(mode="json"),
        **fields,
    }
