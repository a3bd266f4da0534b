"""Requests of a batch to all of its hosts at once, and warnings about slow ones."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from agents import stop_signals
from agents.errors import EnvironmentFailure
from agents.workers.host import Host, HostFailure, LocalHost, WorkerHost

if TYPE_CHECKING:
    from agents.workers.environment_group import RowInfos

# Sends a request whose time limit runs from a time of `time.monotonic`.
SendRequest: TypeAlias = Callable[[Host, float], None]

_PAUSE_SECONDS = 0.002

# No warning before; an environment is slow if it takes so much longer than the others.
MIN_SECONDS = 1.0
SLOWNESS = 10

# Of constructors, which have no usual duration.
CONSTRUCTOR_SECONDS = 10.0

# Between two warnings of the same environment.
REPEAT_SECONDS = 60.0

_MAX_NAMED = 4


class Exchange:
    """Sends requests to all hosts of a batch and receives their replies.

    Attributes:
      hosts: The hosts, in the order of requests.
      watchdog: Watches the hosts.
    """

    def __init__(self, hosts: Sequence[Host], blocking: bool):
        """Initializes the exchange.

        Args:
          hosts: The hosts, in the order of their rows.
          blocking: Whether each host gets a request when the host before has replied.
        """
        # Hosts in this process last: they work while the workers do.
        by_place = sorted(hosts, key=lambda host: isinstance(host, LocalHost))
        self.hosts, self._blocking = hosts if blocking else by_place, blocking
        self.watchdog = Watchdog(hosts)
        # Of the request under way: hosts that have not replied, infos of rows that have any.
        self._waiting: list[Host] = []
        self._infos: RowInfos = []
        self._failures: list[HostFailure] = []

    def begin(self, action: str, send: SendRequest) -> None:
        """Sends a request to all hosts, even after failures; `end` must follow.

        If blocking, each of them replies before the next one gets it.

        Args:
          action: What is requested, a word for warnings.
          send: Sends the request to a host.
        """
        self._waiting, self._infos, self._failures = [], [], []
        started = time.monotonic()
        self.watchdog.begin(action, started)
        late = [host for host in self.hosts if not self._send(host, send, started)]
        while late:
            stop_signals.check()
            self.watchdog.look()
            time.sleep(_PAUSE_SECONDS)
            late = [host for host in late if not self._send(host, send, started)]

    def _send(self, host: Host, send: SendRequest, started: float) -> bool:
        """Sends a request to a host; returns False if its reply to an earlier one must come first.

        Hosts that hang must not use up the time of others.
        """
        if host.is_busy and not self._blocking:
            if time.monotonic() < max(started + host.timeout, host.deadline):
                return False
        try:
            if self._blocking:
                send(host, time.monotonic())
                self._infos += host.receive()
            else:
                send(host, started)  # Discards a late reply first, or times out.
                self._waiting.append(host)
        except EnvironmentFailure as error:
            self._failures.append(HostFailure(host, error))
        return True

    def end(self) -> tuple[RowInfos, list[HostFailure]]:
        """Receives the reply of each host, even after failures.

        No reply is left for the next request to read. The time limits of all hosts run together.

        Returns:
          The infos of rows that have any, and the failures.
        """
        waiting, infos, failures = self._waiting, self._infos, self._failures
        # Failures are not kept: their frames would keep the batch.
        self._waiting, self._infos, self._failures = [], [], []
        for host in waiting:
            try:
                infos += host.receive(self.watchdog.look)
            except EnvironmentFailure as error:
                failures.append(HostFailure(host, error))
        return infos, sorted(failures, key=lambda failure: failure.host.rows.start)


class Watchdog:
    """Warns about stragglers."""

    def __init__(self, hosts: Sequence[Host]):
        """Watches hosts, in the order of their rows."""
        self._hosts = hosts
        self._warned: dict[Host, float] = {}
        self._action, self._started = "", 0.0
        self._num_busy, self._others_seconds = 0, 0.0
        self._longest = 0.0

    def begin(self, action: str, started: float) -> None:
        """Starts watching a request.

        Args:
          action: What is requested, such as "step".
          started: Start of the request, a time of `time.monotonic`.
        """
        self._action, self._started, self._num_busy = action, started, 0

    def look(self) -> None:
        """Warns if hosts take much longer than the others; to be called every few milliseconds."""
        now = time.monotonic()
        busy = [host for host in self._hosts if host.is_busy]
        if len(busy) != self._num_busy:
            self._num_busy, self._others_seconds = len(busy), now - self._started
        if now < self._started + MIN_SECONDS or not busy:
            return
        slow, others = float("inf"), ""
        if len(busy) < len(self._hosts):
            slow = SLOWNESS * self._others_seconds
            others = f"; those of other processes took {self._others_seconds:.2g} s"
        limit = max(MIN_SECONDS, min(busy[0].timeout / 2, slow))
        action = "step or reset" if self._action == "step" else self._action
        self._warn_after(limit, {host: self._started for host in busy}, f"in {action}", others)

    def note_step(self, seconds: float) -> None:
        """Records the duration of a host's step, for `look_at_steps`."""
        self._longest = max(self._longest, seconds)

    def look_at_steps(self, started: Iterable[tuple[Host, float]]) -> None:
        """Warns of hosts whose step takes much longer than any before, each with its own start.

        Args:
          started: Hosts, and when their steps were requested, times of `time.monotonic`.
        """
        slow = SLOWNESS * self._longest or float("inf")
        others = f"; other steps took {self._longest:.2g} s at most" if self._longest else ""
        for host, start in started:
            if host.is_busy:
                limit = max(MIN_SECONDS, min(host.timeout / 2, slow))
                self._warn_after(limit, {host: start}, "in step or reset", others)

    def look_at_constructors(self) -> None:
        """Warns of hosts that have not constructed their environments for long."""
        if time.monotonic() >= self._started + CONSTRUCTOR_SECONDS:
            busy = {host: self._started for host in self._hosts if host.is_busy}
            self._warn_after(CONSTRUCTOR_SECONDS, busy, "under construction")

    def _warn_after(
        self, limit: float, started: Mapping[Host, float], what: str, others: str = ""
    ) -> None:
        """Warns of hosts whose environment in use has taken longer than `limit` seconds.

        Args:
          limit: Seconds.
          started: When requests of busy hosts began, times of `time.monotonic`.
          what: Where they are, in words.
          others: How long others took, in words.
        """
        now = time.monotonic()
        seconds = {host: now - max(start, host.since) for host, start in started.items()}
        new = [
            host
            for host, waited in seconds.items()
            if waited >= limit and now > self._warned.get(host, 0) + REPEAT_SECONDS
        ]
        if not new:
            return
        what = f"{what} for {max(seconds[host] for host in new):.1f} s{others}"
        self._warned.update(dict.fromkeys(new, now))
        names = [self._name(host) for host in new[:_MAX_NAMED]]
        if len(new) > _MAX_NAMED:
            names.append(f"those of {len(new) - _MAX_NAMED} more processes")
        is_one = len(new) == 1 and names[0].startswith("environment ")
        text = f"{', '.join(names)} {'has' if is_one else 'have'} been {what}."
        warnings.warn(text[0].upper() + text[1:], stacklevel=2)

    def _name(self, host: Host) -> str:
        rows, row = host.rows, host.busy_row
        if len(rows) == 1 or row is not None:
            return f"environment {rows[0] if row is None else row} (process {host.pid})"
        return f"environments {rows[0]} to {rows[-1]} (process {host.pid})"


def wait_until_ready(hosts: Sequence[WorkerHost]) -> None:
    """Waits until hosts have constructed their environments, with warnings of slow ones.

    The failure of one ends the wait for the others; all must be closed then.

    Raises:
      EnvironmentFailure: A host could not construct its environments.
    """
    watchdog = Watchdog(hosts)
    watchdog.begin("constructor", time.monotonic())

    def look(waited_for: WorkerHost) -> None:
        watchdog.look_at_constructors()
        for host in hosts:
            if host is not waited_for and not host.is_ready and not host.is_busy:
                host.wait_until_ready(end_on_failure=False)

    for host in hosts:
        host.wait_until_ready(functools.partial(look, host), end_on_failure=False)
