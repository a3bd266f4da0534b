"""The connection of a parent and its worker: counters in shared memory, a doorbell, and messages.

The usual request, a step of the environments, needs no message: the parent increments its counter,
the worker sees it, works, and increments its own. A waiting side first spins on the other's counter
for about a millisecond, yielding the processor between reads, because stepping a light batch takes
less time than waking up a process that sleeps. Then it sleeps until the other side rings the
doorbell. A ring can be lost (one side reads the flag while the other sets it), so sleepers also
wake up periodically.

A short reply lies in shared memory, beside the counters. A request that needs another message
increments the counter first and then sends it: the other side is already reading when a long
message fills the socket. Every message carries the sequence number of its request, so that a late one
is never taken for the next.

Processors other than x86-64's may show a counter before what was written before it. There, every
increment rings, the rings received are the counter, and waiting starts with sleeping: what a process
wrote before it sent is visible to the receiver.

Waits end at a deadline, a time of `time.monotonic`, so that waiting for many sides one after another
takes no longer than for one. A wait that sleeps also ends when a stop of the process is requested.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import platform
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from agents import stop_signals

SPIN_SECONDS = 0.001
SLEEP_SECONDS = 0.02

# Seconds for a worker whose sockets are closed to reply, or to end. An environment may have closed
# them.
CLOSED_SECONDS = 1.0

# Seconds for the message of a reply that has arrived after all, when the deadline has passed.
MESSAGE_SECONDS = 0.1

# Longer messages are refused, before memory is allocated for them.
MAX_MESSAGE_BYTES = 1 << 30

T = TypeVar("T")

_HEADER = struct.Struct("<QQ")  # Sequence number, length in bytes.
# Whether writes of one process become visible to others in their order.
ORDERED_WRITES = platform.machine().lower() in ("x86_64", "amd64")
yield_processor = getattr(os, "sched_yield", lambda: time.sleep(0))


class ChannelClosed(ConnectionError):
    """The other side is gone."""


class MessageError(ConnectionError):
    """A message, or the length in its header, is too long."""


# Shared words by index: both counters, sleep flags, the parent's command, the status of the worker's
# reply, the worker's environment in use, -1 between turns, and the length of the reply's message,
# -1 if it is sent. They fit one cache line. The worker's id, the time when its environment came into
# use, and short messages follow them.
PARENT_COUNT, WORKER_COUNT, PARENT_ASLEEP, WORKER_ASLEEP = range(4)
COMMAND, STATUS, BUSY_ENV, LENGTH = range(4, 8)
WORKER_PID, BUSY_SINCE = 8, 9
WORDS_BYTES = 128
SHARED_BYTES = 4096


def map_words(descriptor: int) -> memoryview:
    """Maps a channel's shared words, int64 [16], and the room for a short message after them.

    Reading or writing one is atomic and takes tens of nanoseconds.
    """
    return memoryview(mmap.mmap(descriptor, SHARED_BYTES)).cast("q")


class Channel:
    """One side of the connection.

    Attributes:
      words: The shared words, indexed by the constants of this module.
      busy_since: The word BUSY_SINCE, a time of `time.monotonic`.
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
        self.busy_since = words.cast("B").cast("d")[BUSY_SINCE : BUSY_SINCE + 1]
        self._short_message = words.cast("B")[WORDS_BYTES:]
        self._other_exited = other_exited
        self._unread = bytearray()
        self._descriptors: list[int] = []
        self._doorbell, self._messages = doorbell, messages
        doorbell.setblocking(False)
        indices = [(PARENT_COUNT, PARENT_ASLEEP), (WORKER_COUNT, WORKER_ASLEEP)]
        (self._count, self._asleep), (self._other_count, self._other_asleep) = (
            indices if parent else indices[::-1]
        )
        self._is_parent, self._is_sending = parent, False
        self._is_ordered = ORDERED_WRITES
        self._rung = 0  # Rings of the other side.
        messages.settimeout(SLEEP_SECONDS)
        self._ring = select.poll()
        self._ring.register(doorbell, select.POLLIN)

    def set_count(self, sequence: int) -> None:
        """Sets this side's counter, one above the last, and wakes up the other side if it sleeps.

        Everything written before is visible to the other side.
        """
        self.words[self._count] = sequence
        if self.words[self._other_asleep] or not self._is_ordered:
            try:
                self._doorbell.send(b"!")
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass  # A full doorbell rings anyway; waits notice a closed one.

    def has_count(self, sequence: int) -> bool:
        """Returns whether the other side's counter has reached `sequence`."""
        if self._is_ordered:
            return self.words[self._other_count] >= sequence
        if self._rung < sequence:
            self.drain_doorbell()
        return self._rung >= sequence

    def wait_count(
        self,
        sequence: int,
        deadline: float | None,
        while_waiting: Callable[[], object] | None = None,
    ) -> None:
        """Waits until the other side's counter reaches `sequence`.

        Args:
          sequence: The count to wait for.
          deadline: When to give up, a time of `time.monotonic`; None waits forever.
          while_waiting: Called every few milliseconds while this side sleeps; may raise.

        Raises:
          TimeoutError: The count was not reached in time.
          ChannelClosed: The other side is gone and the count was not reached.
          StopRequested: A stop of this process was requested.
        """
        if not self._is_ordered:
            self._sleep_until(sequence, deadline, while_waiting)
            return
        words, other_count = self.words, self._other_count
        spin_until = time.perf_counter() + SPIN_SECONDS
        while words[other_count] < sequence:
            yield_processor()
            if time.perf_counter() > spin_until:
                self._sleep_until(sequence, deadline, while_waiting)
                return

    def reply(self, sequence: int, status: int, data: bytes) -> None:
        """Replies to a request with a status and a message, empty for none.

        Raises:
          As `send`.
        """
        length = len(data)
        is_short = length <= len(self._short_message)
        if length and is_short:
            self._short_message[:length] = data
        self.words[STATUS], self.words[LENGTH] = status, length if is_short else -1
        self.set_count(sequence)
        if not is_short:
            self.send(sequence, data, deadline=None)

    def wait_reply(
        self,
        sequence: int,
        deadline: float | None,
        while_waiting: Callable[[], object] | None = None,
    ) -> tuple[int, bytes]:
        """Waits for the worker's reply and returns its status and message.

        Args:
          sequence: Sequence number of the request.
          deadline: See `wait_count`.
          while_waiting: See `wait_count`.

        Raises:
          As `wait_count` and `receive`.
        """
        self.wait_count(sequence, deadline, while_waiting)
        status, length = self.words[STATUS], self.words[LENGTH]
        if length < 0:
            return status, self.receive(sequence, deadline)[0]
        return status, bytes(self._short_message[:length]) if length else b""

    def _sleep_until(
        self, sequence: int, deadline: float | None, while_waiting: Callable[[], object] | None
    ) -> None:
        self.words[self._asleep] = True  # The other side has to ring.
        closed_until = None
        try:
            while not self.has_count(sequence):
                stop_signals.check()
                _check_deadline(deadline)
                if while_waiting is not None:
                    while_waiting()
                is_open = not self._ring.poll(SLEEP_SECONDS * 1000) or self.drain_doorbell()
                if not is_open and closed_until is None:
                    closed_until = time.monotonic() + CLOSED_SECONDS * self._is_parent
                is_closed = closed_until is not None and time.monotonic() >= closed_until
                if (is_closed or self._other_exited()) and not self.has_count(sequence):
                    raise ChannelClosed("the other side closed the channel")
                if not is_open:
                    time.sleep(SLEEP_SECONDS / 10)
        finally:
            self.words[self._asleep] = False

    def drain_doorbell(self) -> bool:
        """Receives the rings; returns False if the other side is gone."""
        try:
            rings = self._doorbell.recv(4096)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self._rung += len(rings)
        return bool(rings)

    def send(
        self,
        sequence: int,
        data: bytes,
        deadline: float | None,
        descriptors: tuple[int, ...] = (),
    ) -> None:
        """Sends a message.

        Args:
          sequence: Sequence number of the request.
          data: Bytes to send.
          deadline: When to give up, a time of `time.monotonic`; None waits forever.
          descriptors: File descriptors to send along; only the worker's side takes them.

        Raises:
          MessageError: The message is too long; nothing was sent.
          TimeoutError: The other side did not read it in time; no further message can be sent.
          ChannelClosed: The other side is gone, or an earlier message was not sent completely.
          StopRequested: A stop of this process was requested.
        """
        check_length(len(data))
        if self._is_sending:
            raise ChannelClosed("an earlier message was not sent completely")
        self._is_sending = True
        header, unsent = _HEADER.pack(sequence, len(data)), memoryview(data)
        send_header = functools.partial(socket.send_fds, self._messages, [header], descriptors)
        self._try_until(send_header, deadline)
        while unsent:
            send_rest = functools.partial(self._messages.send, unsent)
            unsent = unsent[self._try_until(send_rest, deadline) :]
        self._is_sending = False

    def receive(self, sequence: int, deadline: float | None) -> tuple[bytes, list[int]]:
        """Receives the message of a request; discards unread ones of earlier requests.

        Args:
          sequence: Sequence number of the request.
          deadline: When to give up, a time of `time.monotonic`; None waits forever. What is being
            sent already has a moment more.

        Returns:
          The bytes and the file descriptors of the message.

        Raises:
          MessageError: The message is too long; no further message can be received.
          TimeoutError: The message was not complete in time. Its first part is kept for the next
            call.
          ChannelClosed: The other side is gone.
          StopRequested: A stop of this process was requested.
        """
        if deadline is not None:
            deadline = max(deadline, time.monotonic() + MESSAGE_SECONDS)
        while True:
            self._read_up_to(_HEADER.size, deadline)
            received, length = _HEADER.unpack_from(self._unread)
            check_length(length)
            self._read_up_to(_HEADER.size + length, deadline)
            data, descriptors = bytes(self._unread[_HEADER.size :]), self._descriptors
            self._unread, self._descriptors = bytearray(), []
            if received == sequence:
                return data, descriptors
            for descriptor in descriptors:
                os.close(descriptor)

    def _read_up_to(self, size: int, deadline: float | None) -> None:
        """Reads until `size` bytes of the current message are there, and none of the next."""
        while len(self._unread) < size:
            read = functools.partial(self._read, min(size - len(self._unread), 1 << 20))
            chunk, descriptors = self._try_until(read, deadline)
            if not chunk:
                raise ChannelClosed("the other side closed the channel")
            self._unread += chunk
            self._descriptors += descriptors

    def _read(self, limit: int) -> tuple[bytes, list[int]]:
        """Reads at most `limit` bytes; only the worker's side accepts descriptors."""
        if self._is_parent:
            return self._messages.recv(limit), []
        chunk, descriptors, _, _ = socket.recv_fds(self._messages, limit, 4)
        return chunk, descriptors

    def _try_until(self, transfer: Callable[[], T], deadline: float | None) -> T:
        """Returns the result of `transfer` once the socket of messages is ready for it."""
        while True:
            try:
                return transfer()
            except TimeoutError:  # After `SLEEP_SECONDS`.
                pass
            except (BrokenPipeError, ConnectionResetError) as error:
                raise ChannelClosed("the other side closed the channel") from error
            stop_signals.check()
            _check_deadline(deadline)
            if self._other_exited():
                raise ChannelClosed("the other side closed the channel")

    def close(self) -> None:
        """Closes the connection; the other side notices when it next waits or sends.

        May be called again.
        """
        for end in (self._doorbell, self._messages):
            with contextlib.suppress(OSError):  # Closed already, here or at the other end.
                # Closing alone would not do: a forked process may have a copy.
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def wait_until(
    condition: Callable[[], bool],
    channels: Sequence[Channel],
    while_waiting: Callable[[], object],
) -> None:
    """Waits until a condition on the counters of other sides holds, as `Channel.wait_count` for one.

    Args:
      condition: Checked after every change of a counter, and every few milliseconds.
      channels: This side of the channels, one for each counter.
      while_waiting: Called every few milliseconds while this side sleeps; may raise.

    Raises:
      StopRequested: A stop of this process was requested.
    """
    spin_until = time.perf_counter() + SPIN_SECONDS
    while time.perf_counter() <= spin_until:
        if condition():
            return
        yield_processor()
    doorbells = select.poll()
    by_descriptor = {channel._doorbell.fileno(): channel for channel in channels}
    for descriptor in by_descriptor:
        doorbells.register(descriptor, select.POLLIN)
    try:
        for channel in channels:
            channel.words[channel._asleep] = True
        while not condition():
            stop_signals.check()
            while_waiting()
            for descriptor, _ in doorbells.poll(SLEEP_SECONDS * 1000):
                if not by_descriptor[descriptor].drain_doorbell():
                    doorbells.unregister(descriptor)  # The other side is gone.
    finally:
        for channel in channels:
            channel.words[channel._asleep] = False


def check_length(length: int) -> None:
    """Raises MessageError if a message of `length` bytes is too long."""
    if length > MAX_MESSAGE_BYTES:
        raise MessageError(f"a message of {length:,} bytes; expected at most {MAX_MESSAGE_BYTES:,}")


def _check_deadline(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise TimeoutError("the deadline has passed")
