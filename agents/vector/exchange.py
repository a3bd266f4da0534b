"""Requests of a batch to its hosts: sent together, with one deadline for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agents import stop_signals
from agents.errors import EnvironmentFailure
from agents.vector.watchdog import Watchdog
from agents.workers.host import Host, HostFailure, LocalHost

if TYPE_CHECKING:
    from agents.workers.environment_group import RowInfos

# Sends a request whose deadline runs from a time of `time.monotonic`.
SendRequest: TypeAlias = Callable[[Host, float], None]

_PAUSE_SECONDS = 0.002


class Pending(NamedTuple):
    """A request that was sent.

    Attributes:
      hosts: Those that have not replied.
      infos: The infos of rows whose host has replied, where they have any.
      failures: Hosts that have failed.
      look: Looks for hosts that keep the others waiting.
    """

    hosts: list[Host]
    infos: RowInfos
    failures: list[HostFailure]
    look: Callable[[], None]


class Exchange:
    """Sends requests to all hosts of a batch and receives their replies.

    Attributes:
      rows: The rows of each host's environments in the batch.
      watchdog: Watches the hosts.
    """

    def __init__(self, hosts: Sequence[Host], blocking: bool):
        """Initializes the exchange.

        Args:
          hosts: The hosts, in the order of their rows.
          blocking: Whether each host gets a request when the one before has replied.
        """
        # Those of this process last: they work while the others do.
        in_turn = hosts if blocking else sorted(hosts, key=_is_local)
        self._hosts, self._blocking = in_turn, blocking
        self.rows: dict[Host, range] = {}
        for host in hosts:
            start = sum(map(len, self.rows.values()))
            self.rows[host] = range(start, start + host.num_envs)
        self.watchdog = Watchdog(self.rows)

    def begin(self, action: str, send: SendRequest) -> Pending:
        """Sends a request to all hosts, even after failures.

        If blocking, each of them replies before the next one gets it.

        Args:
          action: What is requested, a word for warnings.
          send: Sends the request to a host.

        Returns:
          What `end` takes.
        """
        infos: RowInfos = []
        failures: list[HostFailure] = []
        started = time.monotonic()
        pending: list[Host] = []
        late: list[Host] = []
        look = self.watchdog.begin(action, started)
        for host in self._hosts:
            if host.owes_reply and not self._blocking:
                late.append(host)
                continue
            try:
                if self._blocking:
                    send(host, time.monotonic())
                    infos += host.receive()
                else:
                    send(host, started)
                    pending.append(host)
            except EnvironmentFailure as error:
                failures.append(HostFailure(host, self.rows[host], error))
        if late:
            self._send_late(late, send, started, pending, failures)
        return Pending(pending, infos, failures, look)

    def end(self, pending: Pending) -> tuple[RowInfos, list[HostFailure]]:
        """Receives the reply of each host, even after failures.

        Otherwise the reply of another host would be left unread. However many hosts do not reply,
        they fail together, a deadline after the start of the request.

        Returns:
          The infos of rows that have any, and the failures.
        """
        infos, failures = pending.infos, pending.failures
        for host in pending.hosts:
            try:
                infos += host.receive(pending.look)
            except EnvironmentFailure as error:
                failures.append(HostFailure(host, self.rows[host], error))
        return infos, sorted(failures, key=lambda failure: failure.rows.start)

    def _send_late(
        self,
        late: list[Host],
        send: SendRequest,
        started: float,
        pending: list[Host],
        failures: list[HostFailure],
    ) -> None:
        """Sends a request to hosts that owe the reply to an earlier one, as soon as it is there.

        Each as soon as it can take it: those that hang must not use up the time of the others.
        """
        while late:
            for host in list(late):
                if host.is_busy and time.monotonic() < started + host.timeout:
                    continue
                late.remove(host)
                try:
                    send(host, started)  # Discards the late reply first, or times out.
                    pending.append(host)
                except EnvironmentFailure as error:
                    failures.append(HostFailure(host, self.rows[host], error))
            if late:
                stop_signals.check()
                self.watchdog.look()
                time.sleep(_PAUSE_SECONDS)


def _is_local(host: Host) -> bool:
    return isinstance(host, LocalHost)
