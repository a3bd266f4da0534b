"""The place of a learner in a `Team`, as its process gets it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from agents.distributed.cluster import Address, listen
from agents.distributed.group import Group
from agents.distributed.rendezvous import Place
from agents.processes.reaper import guard
from agents.settings.config import Config

LOOPBACK = "127.0.0.1"


class Seat(NamedTuple):
    """Where a learner sits, and how it finds the others.

    Attributes:
      rank: Its number.
      num_learners: How many there are.
      transport: How they exchange arrays.
      hosts: Addresses of the interfaces that they listen at.
      relay_hosts: Addresses of the interfaces that neighbors in the ring reach them by.
      ports: Ports at both.
      key: What all of them know, as hexadecimal digits.
      memory: Path of the memory that they share; empty for none.
      core: The processor that this one runs on; -1 for all.
    """

    rank: int
    num_learners: int
    transport: str
    hosts: list[str]
    relay_hosts: list[str]
    ports: list[int]
    key: str
    memory: str
    core: int

    def take(self) -> None:
        """Ends with the team's process, and moves to the learner's own core if it has one."""
        guard(os.getppid())
        if self.core >= 0:
            os.sched_setaffinity(0, {self.core})

    @contextlib.contextmanager
    def group(self, config: Config) -> Iterator[Group]:
        """Waits for the other learners; tells them how this one ends."""
        own = Address(self.hosts[self.rank], self.ports[self.rank])
        place = Place(
            rank=self.rank,
            num_learners=self.num_learners,
            chief=Address(self.hosts[0], self.ports[0]),
            host=self.relay_hosts[self.rank],
            key=bytes.fromhex(self.key),
            listener=listen(own).detach(),
            memory=os.open(self.memory, os.O_RDWR) if self.memory else None,
        )
        group = Group(place, config)
        with contextlib.ExitStack() as stack:
            stack.push(lambda kind, error, trace: group.leave(error))
            yield group
