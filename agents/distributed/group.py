"""The learners of a run: who is still there, and why not.

Everyone has a connection with the chief and says every second that it is alive. A learner that dies
closes its connection; one that hangs, or whose network is cut, falls silent. Whoever notices tells
the others, and all stop with an error that names it: none can go on without the others' gradients.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from agents import stop_signals
from agents.distributed.connection import Connection, Message, arrivals, connect, describe_failure
from agents.distributed.exchange import Exchange
from agents.distributed.rendezvous import Place, meet
from agents.distributed.ring_exchange import RingExchange
from agents.distributed.shared_exchange import SharedExchange
from agents.errors import LearnerLostError, first_line
from agents.settings.config import Config

# Seconds between two signs of life, and after which a silent learner is lost.
BEAT_SECONDS = 1.0
SILENCE_SECONDS = 10.0

# Seconds for the main thread to end the process once another learner is lost. With those until it is
# noticed, and those that launchers wait, they are less than 30.
GRACE_SECONDS = 6.0


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
          LearnerLostError: The chief has ended meanwhile.
        """
        meeting = meet(place, config, os.getpid())
        self.rank, self.num_learners = meeting.rank, len(meeting.members)
        self._place, self._meeting, self._timeout = place, meeting, config.start_timeout
        self._error: BaseException | None = None
        self._heard = dict.fromkeys(meeting.connections, time.monotonic())
        self._left: set[int] = set()  # Who has said good-bye, or is lost.
        # Who has ended as it should: after how many calls of the exchange, and when that was.
        self._done: dict[int, tuple[int, float]] = {}
        self._ring: list[Connection] = []
        self._is_closed = False
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="learner-group", daemon=True)
        self._timer: threading.Timer | None = None
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
            waiting = set(others)
            while waiting:
                for rank in self._readable(others, max(deadline - time.monotonic(), 0.0)):
                    self._receive_one(rank, deadline)
                    waiting.discard(rank)
                if waiting and time.monotonic() >= deadline:
                    raise self._lost_error(
                        min(waiting), "was not ready in time; see --start-timeout"
                    )
            for connection in others.values():
                connection.send({"kind": "start"})
        else:
            others[0].send({"kind": "ready"})
            # The chief waits for others for as long, once it is ready itself.
            self._receive_one(0, deadline + self._timeout)
        self._heard = dict.fromkeys(others, time.monotonic())
        self._thread.start()
        self.exchange = self._make_exchange()
        self._meeting.listener.close()

    def check(self) -> None:
        """See `Watch`; may be called in any thread."""
        self._find_missing()
        if self._error is not None:
            raise self._error

    def lost(self, rank: int, error: OSError) -> BaseException:
        """See `Watch`: waits for what the chief says about it, who may know more."""
        deadline = time.monotonic() + SILENCE_SECONDS + 2 * BEAT_SECONDS
        while self._error is None and time.monotonic() < deadline:
            time.sleep(0.02)
            self._find_missing()
        return self._error or self._lost_error(rank, _cause(error))

    def _find_missing(self) -> None:
        """Finds learners that have ended as they should, but earlier than this one."""
        for rank, (num_calls, time_done) in tuple(self._done.items()):
            # What it has sent in its calls still arrives, unless it takes too long.
            is_late = time.monotonic() - time_done > SILENCE_SECONDS
            if is_late or self.exchange.num_calls > num_calls:
                self._fail(self._lost_error(rank, "has stopped"))

    def request_stop(self, signum: int) -> None:
        """Asks the chief to stop all learners, as a signal to the chief's own process would."""
        self._meeting.connections[0].send({"kind": "stop", "signum": signum})

    def leave(self, error: BaseException | None) -> None:
        """Tells the others how this learner has ended, and closes all connections."""
        if self._is_closed:
            return
        self._is_closed = True
        for connection in self._meeting.connections.values():
            connection.send(self._farewell(error))
        self._wake.close()
        if self._thread.is_alive():
            self._thread.join(2 * BEAT_SECONDS)
        if self._timer:
            self._timer.cancel()
        self._meeting.listener.close()
        self._woken.close()
        if hasattr(self, "exchange"):
            self.exchange.close()
        for connection in self._ring:
            connection.close()
        deadline = time.monotonic() + BEAT_SECONDS
        for connection in self._meeting.connections.values():
            connection.close(deadline - time.monotonic())

    def _farewell(self, error: BaseException | None) -> Message:
        """How this learner has ended."""
        if error is None or isinstance(error, GeneratorExit):
            num_calls = self.exchange.num_calls if hasattr(self, "exchange") else 0
            return {"kind": "done", "calls": num_calls}
        if isinstance(error, KeyboardInterrupt):
            return {"kind": "stopped", "signum": stop_signals.exit_code(error) - 128}
        if isinstance(error, LearnerLostError):
            return _lost_message(error)
        return {"kind": "failed", "cause": first_line(error)}

    def _make_exchange(self) -> Exchange:
        """Connects the learners for their arrays."""
        if self._place.memory is not None:
            return SharedExchange(self._place.memory, self.rank, self.num_learners, self)
        members, key = self._meeting.members, self._place.key
        following, previous = ((self.rank + step) % self.num_learners for step in (1, -1))
        deadline = time.monotonic() + SILENCE_SECONDS  # All are there already.
        accepted: list[Connection] = []

        def is_over() -> bool:
            return bool(accepted or self._error) or time.monotonic() > deadline

        def accept_previous() -> None:
            for connection, hello in arrivals(self._meeting.listener, key, is_over):
                if hello == {"kind": "ring", "rank": previous} and not accepted:
                    accepted.append(connection)
                    self._ring.append(connection)
                else:
                    connection.close()

        thread = threading.Thread(target=accept_previous, daemon=True)
        thread.start()
        hello = {"kind": "ring", "rank": self.rank}
        try:
            connection = connect(members[following].address, key, hello, SILENCE_SECONDS)
        except OSError as error:
            raise self.lost(following, error) from None
        finally:
            thread.join()
        self._ring.append(connection)
        if not accepted:
            raise self.lost(previous, TimeoutError("has not connected"))
        return RingExchange(
            connection.socket, accepted[0].socket, self.rank, self.num_learners, self
        )

    def _receive_one(self, rank: int, deadline: float) -> None:
        """Waits for the message that a learner is ready, or that all may start."""
        try:
            message = self._meeting.connections[rank].receive_one(deadline - time.monotonic())
        except OSError as error:
            is_late = isinstance(error, TimeoutError) and not error.errno
            cause = "was not ready in time; see --start-timeout" if is_late else _cause(error)
            raise self._lost_error(rank, cause) from None
        if message.get("kind") not in ("ready", "start"):
            self._handle(rank, message)
            raise self._error or self._lost_error(rank, "has stopped")

    def _readable(self, ranks: Iterable[int], timeout: float) -> list[int]:
        """Waits for a message of any of some learners, or for `leave`; returns whose have come."""
        connections, poll = self._meeting.connections, select.poll()
        descriptors = {connections[rank].socket.fileno(): rank for rank in ranks}
        for descriptor in (*descriptors, self._woken.fileno()):
            poll.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(1000 * timeout)]
        return [descriptors[descriptor] for descriptor in ready if descriptor in descriptors]

    # In the thread.

    def _run(self) -> None:
        """Tells the others that this learner is alive, and listens to them."""
        connections = self._meeting.connections
        for rank, connection in connections.items():
            for message in connection.take_received():
                self._handle(rank, message)
        next_beat = time.monotonic()
        while not self._is_closed:
            timeout = max(next_beat - time.monotonic(), 0.0)
            for rank in self._readable(connections.keys() - self._left, timeout):
                self._hear(rank)
            if (now := time.monotonic()) >= next_beat:
                if now - next_beat > SILENCE_SECONDS / 2:
                    # This process was stopped; the others may have been, too, and go on later.
                    self._heard = dict.fromkeys(self._heard, now)
                next_beat = now + BEAT_SECONDS
                for rank in connections.keys() - self._left:
                    connections[rank].send({"kind": "alive"})
                self._find_silent()

    def _hear(self, rank: int) -> None:
        """Reads what a learner has sent."""
        self._heard[rank] = time.monotonic()
        try:
            for message in self._meeting.connections[rank].receive():
                self._handle(rank, message)
        except (OSError, KeyError, TypeError, ValueError) as error:
            self._left.add(rank)
            self._fail(self._lost_error(rank, _cause(error)))

    def _handle(self, rank: int, message: Message) -> None:
        kind = message.get("kind")
        if kind in ("done", "failed", "lost", "stopped"):
            self._left.add(rank)
            self._meeting.connections[rank].close()
        if kind == "done":
            self._done[rank] = int(message["calls"]), time.monotonic()
        elif kind == "failed":
            self._fail(self._lost_error(rank, f"failed: {message['cause']}"))
        elif kind == "lost":
            self._fail(LearnerLostError(message["rank"], message["host"], message["cause"]))
        elif kind == "stopped" and rank == 0:
            self._fail(stop_signals.StopRequested(int(message["signum"])))
        elif kind == "stopped":
            self._fail(self._lost_error(rank, "has stopped"))
        elif kind == "stop" and self.is_chief and message["signum"] in stop_signals.SIGNALS:
            stop_signals.request(message["signum"])

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
            for rank, connection in self._meeting.connections.items():
                if rank not in self._left:
                    connection.send(_lost_message(error))
        self._timer = threading.Timer(GRACE_SECONDS, self._end_process)
        self._timer.daemon = True
        self._timer.start()

    def _end_process(self) -> None:
        """The main thread stays in a graph call, or in an environment."""
        if not self._is_closed and self._error is not None:
            self.on_stuck(self._error)

    def _lost_error(self, rank: int, cause: str) -> LearnerLostError:
        address = self._meeting.members[rank].address
        return LearnerLostError(rank, address.host, cause)


@contextlib.contextmanager
def passing_signals(group: Group) -> Iterator[None]:
    """Context in which signals to this process stop all learners, by way of the chief.

    A thread passes them on, since the main thread may stay in a graph call for long. Signals that
    the process was started to ignore stay ignored.
    """
    wake, woken = socket.socketpair()
    wake.setblocking(False)

    def pass_on() -> None:
        while numbers := woken.recv(16):
            for signum in set(numbers) & set(stop_signals.SIGNALS):
                group.request_stop(signum)

    thread = threading.Thread(target=pass_on, name="learner-signals", daemon=True)
    thread.start()
    handled = [
        each for each in stop_signals.SIGNALS if signal.getsignal(each) is not signal.SIG_IGN
    ]
    descriptor = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    before = {signum: signal.signal(signum, lambda *_: None) for signum in handled}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(descriptor)
        wake.close()
        thread.join()
        woken.close()


def _lost_message(error: LearnerLostError) -> Message:
    return {"kind": "lost", "rank": error.rank, "host": error.host, "cause": error.cause}


def _cause(error: Exception) -> str:
    """What a learner has done whose connection has failed, or who sends another kind of message."""
    if not isinstance(error, OSError):
        return "sent an unknown message"
    return describe_failure(error)
