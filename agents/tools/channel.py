"""How a parent and its worker take turns: counters in shared memory, a bell, and messages.

The usual turn, one step of the environments, needs no message at all: the parent raises its counter, the worker sees
that, works, and raises its own. Whoever waits first looks at the counter for about a millisecond, giving the processor
away between looks, because a light batch is stepped in less time than a sleeping process takes to wake up. Then it
sleeps until the other one rings the bell. A ring can be lost (one side looks at the flag while the other sets it), so
sleepers also wake up by themselves now and then.

A turn that does need a message raises the counter first and sends the message then: the other side is reading by the
time that a long one fills the socket. Every message carries its turn's number, so that a late one is never taken for
the next one's.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import struct
import time
from collections.abc import Callable

SPIN_SECONDS = 0.001
NAP_SECONDS = 0.02

_HEADER = struct.Struct("<QQ")  # sequence number, length in bytes
_give_way = getattr(os, "sched_yield", lambda: time.sleep(0))


class ChannelClosed(ConnectionError):
    """The other side is gone."""


# The shared words of a channel: both counters, who sleeps, what the parent asks for, how the worker fared, and which of
# its environments the worker is busy with, -1 between turns. Both sides map the same cache line.
PARENT_COUNT, WORKER_COUNT, PARENT_ASLEEP, WORKER_ASLEEP, COMMAND, STATUS, BUSY_ENV = range(7)
LINE_BYTES = 64


def map_line(descriptor: int) -> memoryview:
    """Maps a channel's shared words, 64 bits each. Reading or writing one is atomic and takes tens of nanoseconds."""
    return memoryview(mmap.mmap(descriptor, LINE_BYTES)).cast("q")


class Channel:
    """One side's end of the turn-taking.

    Attributes:
      line: The shared words, to be indexed by the names above.
    """

    def __init__(
        self,
        line: memoryview,
        bell: socket.socket,
        messages: socket.socket,
        parent: bool,
        other_ended: Callable[[], bool] = lambda: False,
    ):
        """Takes one side's end.

        Args:
          line: The mapped line.
          bell: This side's socket of the one pair.
          messages: This side's socket of the other pair.
          parent: Whether this side is the parent's.
          other_ended: Tells whether the other side's process is gone. Its sockets may outlive it, in processes that it
            forked.
        """
        self.line = line
        self._other_ended = other_ended
        self._unread = bytearray()
        self._descriptors: list[int] = []
        self._bell, self._messages = bell, messages
        bell.setblocking(False)
        words = [(PARENT_COUNT, PARENT_ASLEEP), (WORKER_COUNT, WORKER_ASLEEP)]
        (self._count, self._asleep), (self._their_count, self._they_sleep) = words if parent else words[::-1]
        self._poll = select.poll()
        self._poll.register(bell, select.POLLIN)

    def raise_count(self, sequence: int) -> None:
        """Lets the other side go on, waking it if it sleeps. Everything written before is visible to it."""
        self.line[self._count] = sequence
        if self.line[self._they_sleep]:
            try:
                self._bell.send(b"!")
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass  # A full bell rings anyway; a closed one is noticed by whoever waits.

    def wait_count(self, sequence: int, timeout: float | None) -> None:
        """Waits until the other side's counter is at `sequence`.

        Args:
          sequence: The count to wait for.
          timeout: In seconds; None waits for ever.

        Raises:
          TimeoutError: The count was not reached in time.
          ChannelClosed: The other side is gone and the count was not reached.
        """
        line, their_count = self.line, self._their_count
        spin_until = time.perf_counter() + SPIN_SECONDS
        while line[their_count] < sequence:
            _give_way()
            if time.perf_counter() > spin_until:
                self._sleep_until(sequence, timeout)
                return

    def _sleep_until(self, sequence: int, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        self.line[self._asleep] = 1
        try:
            while self.line[self._their_count] < sequence:
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"no answer within {timeout:g} seconds")
                open_ = not self._poll.poll(NAP_SECONDS * 1000) or self._hear()
                if (not open_ or self._other_ended()) and self.line[self._their_count] < sequence:
                    raise ChannelClosed("the other side closed the channel")
        finally:
            self.line[self._asleep] = 0

    def _hear(self) -> bool:
        """Empties the bell; False if the other side is gone."""
        try:
            return bool(self._bell.recv(4096))
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    def send(self, sequence: int, data: bytes, timeout: float | None, descriptors: tuple[int, ...] = ()) -> None:
        """Sends a message: bytes, and file descriptors.

        Raises:
          TimeoutError: The other side did not read it in time; it will take no other message any more.
          ChannelClosed: The other side is gone.
        """
        self._messages.settimeout(timeout)
        try:
            socket.send_fds(self._messages, [_HEADER.pack(sequence, len(data))], descriptors)
            self._messages.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the other side closed the channel") from error

    def receive(self, sequence: int, timeout: float | None) -> tuple[bytes, list[int]]:
        """Receives the message with this sequence number; those of earlier turns that nobody took are passed over.

        Returns:
          The bytes, and the file descriptors that came with them.

        Raises:
          TimeoutError: No such message came in time. What there is of it is kept for the next call.
          ChannelClosed: The other side is gone.
        """
        self._messages.settimeout(timeout)
        try:
            while True:
                self._read_up_to(_HEADER.size)
                number, length = _HEADER.unpack_from(self._unread)
                self._read_up_to(_HEADER.size + length)
                data, descriptors = bytes(self._unread[_HEADER.size :]), self._descriptors
                self._unread, self._descriptors = bytearray(), []
                if number == sequence:
                    return data, descriptors
                for descriptor in descriptors:
                    os.close(descriptor)
        except ConnectionResetError as error:
            raise ChannelClosed("the other side closed the channel") from error

    def _read_up_to(self, size: int) -> None:
        """Reads until `size` bytes of the current message are there, and none of the next."""
        while len(self._unread) < size:
            chunk, descriptors, _, _ = socket.recv_fds(self._messages, min(size - len(self._unread), 1 << 20), 4)
            if not chunk:
                raise ChannelClosed("the other side closed the channel")
            self._unread += chunk
            self._descriptors += descriptors

    def close(self) -> None:
        """Ends the conversation; the other side notices when it waits or sends next. May be called again."""
        for end in (self._bell, self._messages):
            with contextlib.suppress(OSError):  # Of a socket that is closed, or whose other end is.
                end.shutdown(socket.SHUT_RDWR)  # Closing would not do: a forked process may have a copy of it.
            end.close()
