r"""A relay between two TCP addresses that adds delay and limits the rate, as a slower network would.

    python -m benchmarks.relay --listen=127.0.2.1:5000 --to=127.0.1.1:5000 --delay-ms=1 --mbit=100

Bytes pass a token bucket, then a queue in which they stay for the delay. What does not fit into the
queue waits in the sender's socket, as it does with a network that can't take more.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import select
import socket
import threading
import time
from typing import NamedTuple

_CHUNK_BYTES = 1 << 14
_QUEUE_BYTES = 1 << 22
_BURST_BYTES = 1500  # A packet.


class Link(NamedTuple):
    """What a network does to bytes.

    Attributes:
      delay: Seconds from the time that a byte has left until it arrives.
      rate: Bytes per second in each direction; infinity for no limit.
    """

    delay: float = 0.0
    rate: float = float("inf")


DIRECT = Link()


class Relay:
    """Accepts connections in a thread of its own, and relays both directions of each.

    Attributes:
      link: The network; it may be exchanged at any time, for the bytes that come then.
    """

    def __init__(self, listen: tuple[str, int], to: tuple[str, int], link: Link = DIRECT):
        """Starts to listen.

        Args:
          listen: Host and port to listen at.
          to: Host and port to connect to, for every connection that is accepted.
          link: The network.
        """
        self.link = link
        self._to, self._listener = to, socket.create_server(listen)
        self._wake, self._woken = socket.socketpair()
        self._streams: list[_Stream] = []
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Closes all connections."""
        self._wake.close()
        self._thread.join()
        self._listener.close()
        self._woken.close()

    def wait(self) -> None:
        """Waits until the relay is closed."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        finally:
            for stream in self._streams:
                stream.source.close()
                stream.sink.close()

    def _step(self) -> bool:
        """Waits for something to do and does it; returns False once the relay is to be closed."""
        now = time.monotonic()
        reading = {stream.source: stream for stream in self._streams if stream.has_room}
        writing = {stream.sink: stream for stream in self._streams if stream.due <= now}
        later = [stream.due for stream in self._streams if now < stream.due < float("inf")]
        timeout = max(min(later) - now, 0.0) if later else None
        readable, writable, _ = select.select(
            [self._listener, self._woken, *reading], [*writing], [], timeout
        )
        if self._woken in readable:
            return False
        for each in readable:
            if each is self._listener:
                self._accept()
            elif each in reading:
                reading[each].receive(self.link)
        for each in writable:
            writing[each].send()
        self._remove_finished()
        return True

    def _remove_finished(self) -> None:
        """Closes connections both of whose directions have ended."""
        for stream in [each for each in self._streams if each.is_over]:
            self._streams.remove(stream)
            if all(other.source is not stream.sink for other in self._streams):
                stream.source.close()
                stream.sink.close()

    def _accept(self) -> None:
        accepted, _ = self._listener.accept()
        try:
            connected = socket.create_connection(self._to)
        except OSError:
            accepted.close()
            return
        for each in (accepted, connected):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._streams += [_Stream(accepted, connected), _Stream(connected, accepted)]


class _Stream:
    """One direction of a connection.

    Attributes:
      source: Where bytes come from.
      sink: Where they go.
      due: When the next of them have to be sent, infinity if there are none.
      is_over: Whether everything was sent that ever comes.
    """

    def __init__(self, source: socket.socket, sink: socket.socket):
        self.source, self.sink = source, sink
        self.due, self.is_over = float("inf"), False
        # Empty at the end of the stream.
        self._queue: collections.deque[tuple[float, memoryview]] = collections.deque()
        self._queued, self._free, self._has_ended = 0, 0.0, False

    @property
    def has_room(self) -> bool:
        """Whether more may be received."""
        return self._queued < _QUEUE_BYTES and not self._has_ended

    def receive(self, link: Link) -> None:
        """Receives what is there, and decides when it has to be sent."""
        try:
            data = self.source.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        now = time.monotonic()
        # Tokens for a burst have come since the last byte has left; the others are waited for.
        self._free = max(self._free, now - _BURST_BYTES / link.rate) + len(data) / link.rate
        self._queue.append((max(self._free, now) + link.delay, memoryview(data)))
        self._queued += len(data)
        self._has_ended = not data
        self.due = self._queue[0][0]

    def send(self) -> None:
        """Sends what is due."""
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            due, data = self._queue.popleft()
            try:
                count = self.sink.send(data) if data else 0
            except BlockingIOError:
                count = 0
            except OSError:
                self._end()
                return
            if count < len(data):
                self._queue.appendleft((due, data[count:]))
                self._queued -= count
                break
            self._queued -= count
            if not data:
                self._end()
        self.due = self._queue[0][0] if self._queue else float("inf")

    def _end(self) -> None:
        """Tells the receiver that nothing more comes, and the sender not to send more."""
        self.due, self.is_over, self._has_ended = float("inf"), True, True
        for end, how in ((self.sink, socket.SHUT_WR), (self.source, socket.SHUT_RD)):
            with contextlib.suppress(OSError):
                end.shutdown(how)


def main() -> None:
    """Runs the command until it is interrupted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="where to listen")
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="where to connect to")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="milliseconds one way")
    parser.add_argument("--mbit", type=float, default=float("inf"), help="Mbit/s in a direction")
    options = parser.parse_args()
    link = Link(options.delay_ms / 1e3, options.mbit * 1e6 / 8)
    listen, to = (_address(text) for text in (options.listen, options.to))
    with (
        contextlib.closing(Relay(listen, to, link)) as relay,
        contextlib.suppress(KeyboardInterrupt),
    ):
        relay.wait()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    main()
