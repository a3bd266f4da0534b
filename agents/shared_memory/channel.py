"""The connection of a parent and its worker: counters in shared memory, a doorbell, and messages.

The usual turn, one step of the environments, needs no message: the parent increments its counter,
the worker sees it, works, and increments its own. A waiting side first spins on the other's counter
for about a millisecond, yielding the processor between reads, because stepping a light batch takes
less time than waking up a process that sleeps. Then it sleeps until the other side rings the
doorbell. A ring can be lost (one side reads the flag while the other sets it), so sleepers also
wake up periodically.

A turn that needs a message increments the counter first and then sends it: the other side is
already reading when a long message fills the socket. Every message carries the sequence number of
its turn, so that a late one is never taken for the next.
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

from agents import stop_signals

SPIN_SECONDS = 0.001
SLEEP_SECONDS = 0.02

_HEADER = struct.Struct("<QQ")  # Sequence number, length in bytes.
_yield_processor = getattr(os, "sched_yield", lambda: time.sleep(0))


class ChannelClosed(ConnectionError):
    """The other side is gone."""


# Shared words by index: both counters, who sleeps, the parent's command, the status of the worker's
# reply, and the worker's environment in use, -1 between turns. They fit one cache line.
PARENT_COUNT, WORKER_COUNT, PARENT_ASLEEP, WORKER_ASLEEP, COMMAND, STATUS, BUSY_ENV = range(7)
WORDS_BYTES = 64


def map_words(descriptor: int) -> memoryview:
    """Maps a channel's shared words, int64 [8].

    Reading or writing one is atomic and takes tens of nanoseconds.
    """
    return memoryview(mmap.mmap(descriptor, WORDS_BYTES)).cast("q")


class Channel:
    """One side of the connection.

    Attributes:
      words: The shared words, indexed by the constants of this module.
    """

    def __init__(
        self,
        words: memoryview,
        doorbell: socket.socket,
        messages: socket.socket,
        parent: bool,
        other_exited: Callable[[], bool] = lambda: False,
    ):
        """Initializes one side.

        Args:
          words: The mapped shared words.
          doorbell: This side's socket of one pair.
          messages: This side's socket of another pair.
          parent: Whether this side is the parent's.
          other_exited: Returns whether the other side's process is gone. Its sockets may outlive
            it, in processes that it forked.
        """
        self.words = words
        self._other_exited = other_exited
        self._unread = bytearray()
        self._descriptors: list[int] = []
        self._doorbell, self._messages = doorbell, messages
        doorbell.setblocking(False)
        indices = [(PARENT_COUNT, PARENT_ASLEEP), (WORKER_COUNT, WORKER_ASLEEP)]
        (self._count, self._asleep), (self._other_count, self._other_asleep) = (
            indices if parent else indices[::-1]
        )
        self._poll = select.poll()
        self._poll.register(doorbell, select.POLLIN)

    def set_count(self, sequence: int) -> None:
        """Sets this side's counter and wakes up the other side if it sleeps.

        Everything written before is visible to the other side.
        """
        self.words[self._count] = sequence
        if self.words[self._other_asleep]:
            try:
                self._doorbell.send(b"!")
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass  # A full doorbell rings anyway; a closed one is noticed by whoever waits.

    def wait_count(self, sequence: int, timeout: float | None) -> None:
        """Waits until the other side's counter reaches `sequence`.

        Args:
          sequence: The count to wait for.
          timeout: In seconds; None waits forever.

        Raises:
          TimeoutError: The count was not reached in time.
          ChannelClosed: The other side is gone and the count was not reached.
        """
        words, other_count = self.words, self._other_count
        spin_until = time.perf_counter() + SPIN_SECONDS
        while words[other_count] < sequence:
            _yield_processor()
            if time.perf_counter() > spin_until:
                self._sleep_until(sequence, timeout)
                return

    def _sleep_until(self, sequence: int, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        self.words[self._asleep] = 1
        try:
            while self.words[self._other_count] < sequence:
                stop_signals.check()
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"no reply within {timeout:g} seconds")
                is_open = not self._poll.poll(SLEEP_SECONDS * 1000) or self._drain_doorbell()
                if (not is_open or self._other_exited()) and (
                    self.words[self._other_count] < sequence
                ):
                    raise ChannelClosed("the other side closed the channel")
        finally:
            self.words[self._asleep] = 0

    def _drain_doorbell(self) -> bool:
        """Discards the rings received; returns False if the other side is gone."""
        try:
            return bool(self._doorbell.recv(4096))
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    def send(
        self, sequence: int, data: bytes, timeout: float | None, descriptors: tuple[int, ...] = ()
    ) -> None:
        """Sends a message.

        Args:
          sequence: Sequence number of the turn.
          data: Bytes to send.
          timeout: In seconds; None waits forever.
          descriptors: File descriptors to send along.

        Raises:
          TimeoutError: The other side did not read it in time; no further message can be sent.
          ChannelClosed: The other side is gone.
        """
        self._messages.settimeout(timeout)
        try:
            socket.send_fds(self._messages, [_HEADER.pack(sequence, len(data))], descriptors)
            self._messages.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the other side closed the channel") from error

    def receive(self, sequence: int, timeout: float | None) -> tuple[bytes, list[int]]:
        """Receives the message of a turn; discards unread ones of earlier turns.

        Args:
          sequence: Sequence number of the turn.
          timeout: In seconds; None waits forever.

        Returns:
          The bytes and the file descriptors of the message.

        Raises:
          TimeoutError: The message was not complete in time. Its first part is kept for the next
            call.
          ChannelClosed: The other side is gone.
        """
        self._messages.settimeout(timeout)
        try:
            while True:
                self._read_up_to(_HEADER.size)
                received, length = _HEADER.unpack_from(self._unread)
                self._read_up_to(_HEADER.size + length)
                data, descriptors = bytes(self._unread[_HEADER.size :]), self._descriptors
                self._unread, self._descriptors = bytearray(), []
                if received == sequence:
                    return data, descriptors
                for descriptor in descriptors:
                    os.close(descriptor)
        except ConnectionResetError as error:
            raise ChannelClosed("the other side closed the channel") from error

    def _read_up_to(self, size: int) -> None:
        """Reads until `size` bytes of the current message are there, and none of the next."""
        while len(self._unread) < size:
            chunk, descriptors, _, _ = socket.recv_fds(
                self._messages, min(size - len(self._unread), 1 << 20), 4
            )
            if not chunk:
                raise ChannelClosed("the other side closed the channel")
            self._unread += chunk
            self._descriptors += descriptors

    def close(self) -> None:
        """Closes the connection; the other side notices when it next waits or sends.

        May be called again.
        """
        for end in (self._doorbell, self._messages):
            with contextlib.suppress(OSError):  # Closed already, here or at the other end.
                # Closing alone would not do: a forked process may have a copy.
                end.shutdown(socket.SHUT_RDWR)
            end.close()
