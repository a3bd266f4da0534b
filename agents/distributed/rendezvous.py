"""How the learners of a run find each other: all connect to the chief, who tells them who is there."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import NamedTuple

from agents.distributed.cluster import Address, divides, listen
from agents.distributed.connection import Connection, accept, connect
from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.resumption import CHANGEABLE
from agents.settings.validation import abbreviate
from agents.types import PlainData
from agents.version import __version__

# Seconds between two attempts to reach a chief who does not listen yet.
_RETRY_SECONDS = 0.2

# Settings that may differ between learners: each looks after its own environments.
_OWN_SETTINGS = frozenset({"num_processes", "threads", "start_timeout", "step_timeout"})
assert _OWN_SETTINGS <= CHANGEABLE


class Place(NamedTuple):
    """What a learner has to know to join the others.

    Attributes:
      rank: Its number, 0 for the chief; another one may be given to it if some do not come.
      num_learners: How many are expected.
      chief: Where the chief listens.
      host: The name or IP address of the interface that others reach this learner by.
      key: What all learners of the run know, and strangers do not.
      port: The port that this learner listens at; 0 for any.
      minimum: With how many the chief starts when the time to wait is over.
      listener: Descriptor of a socket that listens already, for a chief.
      memory: Descriptor of memory that all learners share, if they are on one machine.
    """

    rank: int
    num_learners: int
    chief: Address
    host: str
    key: bytes = b""
    port: int = 0
    minimum: int = 0
    listener: int | None = None
    memory: int | None = None


class Member(NamedTuple):
    """A learner as the others know it.

    Attributes:
      address: Where it listens.
      process: Its process id.
    """

    address: Address
    process: int


class Meeting(NamedTuple):
    """The learners that have come.

    Attributes:
      rank: The number of this one among them.
      members: All of them, by rank.
      connections: Connections by rank: the chief has one with everyone, others with the chief.
      listener: The socket that this learner listens at.
    """

    rank: int
    members: list[Member]
    connections: dict[int, Connection]
    listener: socket.socket


def meet(place: Place, config: Config, process: int) -> Meeting:
    """Waits for the other learners of the run, for at most `config.start_timeout` seconds.

    Args:
      place: The place of this learner.
      config: The experiment, which must be the same for all.
      process: Id of this process.

    Raises:
      UsageError: Some do not come, or have other settings or another version.
    """
    if place.listener is not None:
        listener = socket.socket(fileno=place.listener)
    else:
        listener = listen(Address(place.host, place.port))
    own = Member(Address(place.host, listener.getsockname()[1]), process)
    try:
        if place.rank == 0:
            return _await_learners(place, config, own, listener)
        return _join_chief(place, config, own, listener)
    except BaseException:
        listener.close()
        raise


def _await_learners(place: Place, config: Config, own: Member, listener: socket.socket) -> Meeting:
    """The chief's side."""
    deadline = time.monotonic() + config.start_timeout
    come: dict[int, tuple[Connection, Member]] = {}
    try:
        while len(come) < place.num_learners - 1 and time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # Strangers, or none for a while.
                seconds = max(min(deadline - time.monotonic(), 1.0), 0.01)
                connection, hello = accept(listener, place.key, seconds)
                rank, reason = hello.get("rank"), _difference(hello, config)
                taken = not isinstance(rank, int) or not 0 < rank < place.num_learners
                if taken or rank in come:
                    reason = reason or f"there is a learner {rank} already"
                if reason or not isinstance(rank, int):
                    connection.send({"refused": reason})
                    connection.close()
                    raise UsageError(f"learner {rank} on {hello.get('host')}: {reason}")
                address = Address(str(hello["host"]), int(hello["port"]))
                come[rank] = connection, Member(address, int(hello["process"]))
        ranks = _those_to_start(place, config, sorted(come))
        members = [own, *(come[rank][1] for rank in ranks)]
        for connection, _ in (come.pop(rank) for rank in set(come) - set(ranks)):
            connection.send({"refused": "the others can't share the work with one more"})
            connection.close()
        for new_rank, rank in enumerate(ranks, 1):
            come[rank][0].send({"rank": new_rank, "members": members})
    except BaseException:
        for connection, _ in come.values():
            connection.close()
        raise
    connections = {new_rank: come[rank][0] for new_rank, rank in enumerate(ranks, 1)}
    return Meeting(0, members, connections, listener)


def _those_to_start(place: Place, config: Config, come: list[int]) -> list[int]:
    """Which of the learners that have come can share the work with the chief.

    Raises:
      UsageError: Too few have come.
    """
    if len(come) == place.num_learners - 1:
        return come
    minimum = place.minimum or place.num_learners
    missing = sorted(set(range(1, place.num_learners)) - set(come))
    for count in range(len(come) + 1, max(minimum, 1) - 1, -1):
        if divides(config, count):
            return come[: count - 1]
    raise UsageError(
        f"learner {missing[0]} has not come within {config.start_timeout:g} s "
        f"({len(come) + 1} of {place.num_learners} are there)\n"
        f"it has to reach {place.chief} with the same key; see --start-timeout"
    )


def _join_chief(place: Place, config: Config, own: Member, listener: socket.socket) -> Meeting:
    """The side of all others."""
    hello = {
        "kind": "learner",
        "rank": place.rank,
        "host": own.address.host,
        "port": own.address.port,
        "process": own.process,
        "version": __version__,
        "config": config.model_dump(mode="json"),
    }
    deadline = time.monotonic() + config.start_timeout
    reason = "does not listen"
    while (left := deadline - time.monotonic()) > 0:
        try:
            connection = connect(place.chief, place.key, hello, min(left, 10.0))
        except OSError as error:
            reason = error.strerror or str(error) or reason
            time.sleep(min(_RETRY_SECONDS, left))
            continue
        try:
            # The chief waits for others for as long.
            welcome = connection.receive_one(left + config.start_timeout)
        except OSError as error:
            connection.close()
            raise UsageError(f"the chief at {place.chief} {error}; see its own message") from None
        if "members" not in welcome:
            connection.close()
            reason = welcome.get("refused", "it has stopped")
            raise UsageError(f"the chief at {place.chief} refuses learner {place.rank}: {reason}")
        members = [Member(Address(*address), process) for address, process in welcome["members"]]
        return Meeting(int(welcome["rank"]), members, {0: connection}, listener)
    raise UsageError(
        f"learner {place.rank} can't reach the chief at {place.chief} within "
        f"{config.start_timeout:g} s: {reason}\n"
        "the chief has to run the same command with the same key; see --start-timeout"
    )


def _difference(hello: dict[str, PlainData], config: Config) -> str:
    """Why a learner can't train with the chief; empty if it can."""
    if hello.get("version") != __version__:
        return f"it has version {hello.get('version')}, and the chief {__version__}"
    given = hello.get("config")
    # As JSON, in which tuples are lists.
    settings = json.loads(json.dumps(config.model_dump(mode="json")))
    for name in settings.keys() - _OWN_SETTINGS:
        theirs = given.get(name) if isinstance(given, dict) else None
        if theirs != settings[name]:
            return (
                f"its {name} is {abbreviate(theirs)}, the chief's is {abbreviate(settings[name])}"
            )
    return ""
