"""How the learners of a run find each other: all connect to the chief, who tells them who is there."""

from __future__ import annotations

import json
import socket
import time
from typing import NamedTuple

from agents.distributed.cluster import Address, divides, listen
from agents.distributed.connection import Connection, Message, arrivals, connect, describe_failure
from agents.errors import LearnerLostError, UsageError, first_line
from agents.settings.config import Config
from agents.settings.resumption import CHANGEABLE
from agents.settings.validation import abbreviate
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
      LearnerLostError: The chief has ended while it waited for others.
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

    def is_over() -> bool:
        for rank in [rank for rank in come if come[rank][0].is_readable()]:
            come.pop(rank)[0].close()  # It has ended; perhaps it is started again.
        return len(come) == place.num_learners - 1 or time.monotonic() > deadline

    try:
        for connection, hello in arrivals(listener, place.key, is_over):
            _admit(connection, hello, come, place, config)
        ranks = _those_to_start(place, config, sorted(come))
        members = [own, *(come[rank][1] for rank in ranks)]
        for connection, _ in (come.pop(rank) for rank in set(come) - set(ranks)):
            _refuse(connection, "the others can't share the work with one more")
        for new_rank, rank in enumerate(ranks, 1):
            come[rank][0].send({"rank": new_rank, "members": members})
    except BaseException as error:
        for connection, _ in come.values():
            if isinstance(error, UsageError):
                connection.send({"ended": first_line(error)})
            connection.close()
        raise
    connections = {new_rank: come[rank][0] for new_rank, rank in enumerate(ranks, 1)}
    return Meeting(0, members, connections, listener)


def _admit(
    connection: Connection,
    hello: Message,
    come: dict[int, tuple[Connection, Member]],
    place: Place,
    config: Config,
) -> None:
    """Adds a learner to those that have come.

    Raises:
      UsageError: It can't train with the chief.
    """
    try:
        rank, address = int(hello["rank"]), Address(str(hello["host"]), int(hello["port"]))
        member = Member(address, int(hello["process"]))
    except (KeyError, TypeError, ValueError):
        connection.close()  # It looks for somebody else.
        return
    reason = _difference(hello, place, config)
    if rank in come or not 0 < rank < place.num_learners:
        reason = reason or f"there is a learner {rank} already"
    if reason:
        _refuse(connection, reason)
        raise UsageError(f"learner {rank} on {address.host}: {reason}")
    come[rank] = connection, member


def _refuse(connection: Connection, reason: str) -> None:
    connection.send({"refused": reason})
    connection.close()


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
        f"learner {missing[0]} did not join within {config.start_timeout:g} s "
        f"({len(come) + 1} of {place.num_learners} are there)\n"
        f"it has to reach {place.chief} with the same key; see --start-timeout"
    )


def _join_chief(place: Place, config: Config, own: Member, listener: socket.socket) -> Meeting:
    """The side of all others."""
    hello = {
        "rank": place.rank,
        "num_learners": place.num_learners,
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
            if "members" in welcome:
                members = [Member(Address(*one), process) for one, process in welcome["members"]]
                return Meeting(int(welcome["rank"]), members, {0: connection}, listener)
        except OSError as error:
            connection.close()
            # It may be started again, as those whom it was lost to.
            cause = f"{describe_failure(error)} before all learners had come"
            raise LearnerLostError(0, place.chief.host, cause) from None
        except BaseException:
            connection.close()
            raise
        connection.close()
        refused = f"refuses learner {place.rank}: {welcome.get('refused')}"
        ended = f"has ended: {welcome.get('ended')}"
        raise UsageError(f"the chief at {place.chief} {ended if 'ended' in welcome else refused}")
    raise UsageError(
        f"learner {place.rank} can't reach the chief at {place.chief} within "
        f"{config.start_timeout:g} s: {reason}\n"
        "the chief has to run the same command with the same key; see --start-timeout"
    )


def _difference(hello: Message, place: Place, config: Config) -> str:
    """Why a learner can't train with the chief; empty if it can."""
    given = hello.get("config")
    given = given if isinstance(given, dict) else {}
    # As JSON, in which tuples are lists.
    settings = json.loads(json.dumps(config.model_dump(mode="json")))
    pairs = {
        "version": (hello.get("version"), __version__),
        "number of learners": (hello.get("num_learners"), place.num_learners),
        **{name: (given.get(name), settings[name]) for name in settings},
    }
    for name, (theirs, own) in pairs.items():
        if name not in _OWN_SETTINGS and theirs != own:
            return f"its {name} is {abbreviate(theirs)}, the chief's is {abbreviate(own)}"
    return ""
