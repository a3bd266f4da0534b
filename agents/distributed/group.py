"""The learners of a run: who is still there, and why not.

Everyone has a connection with the chief and says every second that it is alive. A learner that dies
closes its connection; one that hangs, or whose network is cut, falls silent. Whoever notices tells
the others, and all stop with an error that names it: none can go on without the others' gradients.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable

from agents import stop_signals
from agents.distributed.cluster import Address
from agents.distributed.connection import Connection, Message, arrivals, connect
from agents.distributed.exchange import Exchange
from agents.distributed.rendezvous import Meeting, Place, meet
from agents.distributed.ring_exchange import RingExchange
from agents.distributed.shared_exchange import SharedExchange
from agents.errors import LearnerLostError, first_line
from agents.settings.config import Config

# Seconds between two signs of life, and after which a silent learner is lost.
BEAT_SECONDS = 1.0
SILENCE_SECONDS = 10.0

# Seconds for the main thread to end the process once another learner is lost.
GRACE_SECONDS = 10.0


class Group:
    """One learner's view of all.

    Attributes:
      rank: Its number, 0 for the chief.
      num_learners: How many there are.
      exchange: Combines arrays of all learners; there once `start` was called.
    """

    exchange: Exchange

    def __init__(self, place: Place, config: Config):
        """Waits for the other learners.

        Raises:
          UsageError: Some do not come, or train something else.
        """
        meeting = meet(place, config, os.getpid())
        self.rank, self.num_learners = meeting.rank, len(meeting.members)
        self._place, self._meeting, self._timeout = place, meeting, config.start_timeout
        self._error: BaseException | None = None
        self._heard = dict.fromkeys(meeting.connections, time.monotonic())
        self._left: set[int] = set()  # Who has said good-bye.
        self._restarts: list[Message] = []
        self._is_closed = False
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="learner-group", daemon=True)
        # Called in another thread if the main thread does not end the process by itself.
        self.on_stuck: Callable[[BaseException], object] = lambda error: None

    @property
    def is_chief(self) -> bool:
        """Whether this learner evaluates, logs and saves."""
        return self.rank == 0

    def start(self) -> None:
        """Waits until everyone is ready to train; from now on all watch each other.

        Raises:
          LearnerLostError: A learner has ended meanwhile, or does not get ready in time.
        """
        others = self._meeting.connections
        deadline = time.monotonic() + self._timeout
        if self.is_chief:
            for rank, connection in others.items():
                self._receive_one(rank, connection, deadline)
            for connection in others.values():
                connection.send({"kind": "start"})
        else:
            others[0].send({"kind": "ready"})
            self._receive_one(0, others[0], deadline)
        self._heard = dict.fromkeys(others, time.monotonic())
        self._thread.start()
        self.exchange = self._make_exchange(deadline)

    def check(self) -> None:
        """See `Watch`; may be called in any thread."""
        if self._error is not None:
            raise self._error

    def lost(self, rank: int, error: OSError) -> BaseException:
        """See `Watch`: waits for what the chief says about it, who may know more."""
        deadline = time.monotonic() + SILENCE_SECONDS + 2 * BEAT_SECONDS
        while self._error is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return self._error or self._lost_error(rank, error.strerror or str(error))

    def request_stop(self, signum: int) -> None:
        """Asks the chief to stop all learners, as a signal to the chief's own process would."""
        self._meeting.connections[0].send({"kind": "stop", "signum": signum})

    def leave(self, error: BaseException | None) -> None:
        """Tells the others how this learner has ended, and closes all connections."""
        if self._is_closed:
            return
        self._is_closed = True
        if error is None or isinstance(error, GeneratorExit):
            message: Message = {"kind": "done"}
        elif isinstance(error, KeyboardInterrupt):
            message = {"kind": "stopped", "signum": stop_signals.exit_code(error) - 128}
        elif isinstance(error, LearnerLostError):
            message = {"kind": "lost", "rank": error.rank, "host": error.host, "cause": error.cause}
        else:
            message = {"kind": "failed", "cause": first_line(error)}
        for connection in self._meeting.connections.values():
            connection.send(message)
        self._wake.close()
        if self._thread.is_alive():
            self._thread.join(2 * BEAT_SECONDS)
        for connection in self._meeting.connections.values():
            connection.close()
        self._meeting.listener.close()
        self._woken.close()
        if hasattr(self, "exchange"):
            self.exchange.close()

    def _make_exchange(self, deadline: float) -> Exchange:
        """Connects the learners for their arrays."""
        if self._place.memory is not None:
            return SharedExchange(self._place.memory, self.rank, self.num_learners, self)
        members, key = self._meeting.members, self._place.key
        following = (self.rank + 1) % self.num_learners
        accepted: list[Connection] = []

        def is_over() -> bool:
            return bool(accepted or self._error) or time.monotonic() > deadline

        def accept_previous() -> None:
            expected = {"kind": "ring", "rank": (self.rank - 1) % self.num_learners}
            for connection, hello in arrivals(self._meeting.listener, key, is_over):
                if hello == expected and not accepted:
                    accepted.append(connection)
                else:
                    connection.close()

        thread = threading.Thread(target=accept_previous, daemon=True)
        thread.start()
        hello = {"kind": "ring", "rank": self.rank}
        try:
            connection = connect(
                members[following].address, key, hello, max(deadline - time.monotonic(), 1.0)
            )
        except OSError as error:
            raise self.lost(following, error) from None
        thread.join()
        if not accepted:
            previous = (self.rank - 1) % self.num_learners
            raise self.lost(previous, TimeoutError("has not connected"))
        return RingExchange(
            connection.socket, accepted[0].socket, self.rank, self.num_learners, self
        )

    def _receive_one(self, rank: int, connection: Connection, deadline: float) -> None:
        """Waits for the message that a learner is ready, or that all may start."""
        try:
            message = connection.receive_one(deadline - time.monotonic())
        except TimeoutError:
            raise self._lost_error(rank, "has not become ready") from None
        except OSError as error:
            raise self._lost_error(rank, error.strerror or str(error)) from None
        if message.get("kind") not in ("ready", "start"):
            self._handle(rank, message)
            self.check()

    # In the thread.

    def _run(self) -> None:
        """Tells the others that this learner is alive, and listens to them."""
        ranks = {one.socket: rank for rank, one in self._meeting.connections.items()}
        next_beat = time.monotonic()
        while not self._is_closed:
            sockets = [each for each, rank in ranks.items() if rank not in self._left]
            timeout = max(next_beat - time.monotonic(), 0.0)
            readable, _, _ = select.select([*sockets, self._woken], [], [], timeout)
            for one in readable:
                if one is not self._woken:
                    self._hear(ranks[one])
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + BEAT_SECONDS
                for connection in self._meeting.connections.values():
                    connection.send({"kind": "alive"})
                self._find_silent()

    def _hear(self, rank: int) -> None:
        """Reads what a learner has sent."""
        try:
            messages = self._meeting.connections[rank].receive()
        except OSError as error:
            self._fail(self._lost_error(rank, error.strerror or str(error)))
            self._left.add(rank)
            return
        self._heard[rank] = time.monotonic()
        for message in messages:
            self._handle(rank, message)

    def _handle(self, rank: int, message: Message) -> None:
        kind = message.get("kind")
        if kind in ("done", "stopped", "lost", "failed"):
            self._left.add(rank)
        if kind == "failed":
            self._fail(self._lost_error(rank, f"failed: {message.get('cause')}"))
        elif kind == "lost":
            error = LearnerLostError(message["rank"], message["host"], message["cause"])
            self._fail(error)
        elif kind == "stopped" and rank == 0:
            self._fail(stop_signals.StopRequested(int(message["signum"])))
        elif kind == "stopped" or (kind == "done" and rank == 0):
            self._fail(self._lost_error(rank, "has stopped"))
        elif kind == "stop" and self.is_chief:
            os.kill(os.getpid(), int(message["signum"]))

    def _find_silent(self) -> None:
        now = time.monotonic()
        for rank, heard in self._heard.items():
            if rank not in self._left and now - heard > SILENCE_SECONDS:
                self._left.add(rank)
                cause = f"has not answered for {SILENCE_SECONDS:g} s"
                self._fail(self._lost_error(rank, cause))

    def _fail(self, error: BaseException) -> None:
        """Lets the main thread raise an error, which ends the process in any case."""
        if self._error is not None or self._is_closed:
            return
        self._error = error
        if self.is_chief and isinstance(error, LearnerLostError):
            lost = {"kind": "lost", "rank": error.rank, "host": error.host, "cause": error.cause}
            for rank, connection in self._meeting.connections.items():
                if rank not in self._left:
                    connection.send(lost)
        if hasattr(self, "exchange"):
            pass  # Whoever waits in it checks for errors.
        timer = threading.Timer(GRACE_SECONDS, self._end_process)
        timer.daemon = True
        timer.start()

    def _end_process(self) -> None:
        """The main thread stays in a graph call, or in an environment."""
        if not self._is_closed and self._error is not None:
            self.on_stuck(self._error)

    def _lost_error(self, rank: int, cause: str) -> LearnerLostError:
        address = self._meeting.members[rank].address
        return LearnerLostError(rank, address.host, cause)


def own_signals(group: Group) -> None:
    """Lets signals to this process stop all learners, by way of the chief."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda number, frame: group.request_stop(number))


__all__ = ["Address", "Group", "Meeting", "own_signals"]
