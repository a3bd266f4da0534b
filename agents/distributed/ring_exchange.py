"""The exchange of learners on several machines, in a ring of TCP connections.

Each learner sends to the next and receives from the one before. An array is cut into as many parts
as there are learners: in the first round every part is summed on its way around, in the second the
sums go around, so that each learner sends 2 (n - 1) / n of an array, however many there are (Patarasuk
and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009). A part is
summed by one learner after another, so that all get the same bits.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Sequence

import numpy as np

from agents.distributed.exchange import Exchange, Watch, join_flat

_HEADER = struct.Struct("<QQ")  # Number of the call, length of the message in bytes.
_POLL_SECONDS = 0.2


class RingExchange(Exchange):
    """See the module."""

    def __init__(
        self,
        following: socket.socket,
        previous: socket.socket,
        rank: int,
        num_learners: int,
        watch: Watch,
    ):
        """Takes over the connections.

        Args:
          following: The connection with the learner of the next rank.
          previous: That with the learner before.
          rank: Which learner this is.
          num_learners: How many there are.
          watch: Asked regularly while this waits, and when a connection fails.
        """
        self._following, self._previous = following, previous
        self._rank, self._num_learners, self._watch = rank, num_learners, watch
        for connected in (following, previous):
            connected.setblocking(False)
            if option := getattr(socket, "TCP_USER_TIMEOUT", None):
                # A neighbor may be late for as long as it is alive, which is the watch's business.
                connected.setsockopt(socket.IPPROTO_TCP, option, 0)

    def sum(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        flat = join_flat(arrays)
        parts = np.array_split(flat, self._num_learners)
        received = np.empty_like(parts[0])  # The first parts are the longest.
        for step in range(self._num_learners - 1):
            part = parts[(self._rank - step - 1) % self._num_learners]
            other = received[: part.size]
            self._swap(parts[(self._rank - step) % self._num_learners], other)
            part += other
        for step in range(self._num_learners - 1):
            sent = parts[(self._rank - step + 1) % self._num_learners]
            self._swap(sent, parts[(self._rank - step) % self._num_learners])
        return flat

    def gather(self, data: np.ndarray) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        gathered = np.empty([self._num_learners, data.size], np.uint8)
        gathered[self._rank] = data
        for step in range(self._num_learners - 1):
            sent = (self._rank - step) % self._num_learners
            self._swap(gathered[sent], gathered[sent - 1])
        return gathered

    def broadcast(self, data: np.ndarray) -> np.ndarray:
        """See `Exchange`."""
        self.num_calls += 1
        data, nothing = data.copy(), data[:0].copy()
        is_last = self._rank == self._num_learners - 1
        if self._rank:
            self._swap(nothing, data, sends=False)
        if not is_last:
            self._swap(data, nothing, receives=False)
        return data

    def close(self) -> None:
        """See `Exchange`."""
        for connected in (self._following, self._previous):
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
            connected.close()

    def _swap(
        self,
        outgoing: np.ndarray,
        incoming: np.ndarray,
        sends: bool = True,
        receives: bool = True,
    ) -> None:
        """Sends an array to the next learner while it receives one of the learner before."""
        header = _HEADER.pack(self.num_calls, outgoing.nbytes)
        expected = _HEADER.pack(self.num_calls, incoming.nbytes)
        got = bytearray(_HEADER.size)
        to_send = [memoryview(header), outgoing.view(np.uint8).data] if sends else []
        to_fill = [memoryview(got), incoming.view(np.uint8).data] if receives else []
        last_check = time.monotonic()
        while to_send or to_fill:
            progressed = self._send(to_send) + self._fill(to_fill)
            if receives and len(to_fill) < 2 and got != expected:
                raise RuntimeError(
                    f"Learner {(self._rank - 1) % self._num_learners} is not at the same "
                    f"reduction: expected call and bytes {_HEADER.unpack(expected)}, "
                    f"got {_HEADER.unpack(got)}."
                )
            if not progressed:
                self._wait(bool(to_send), bool(to_fill))
            now = time.monotonic()
            if now - last_check > _POLL_SECONDS:
                self._watch.check()
                last_check = now

    def _wait(self, sends: bool, receives: bool) -> None:
        """Waits for a while until it can send or receive."""
        poll = select.poll()  # Takes any descriptor, as `select.select` does not.
        if sends:
            poll.register(self._following, select.POLLOUT)
        if receives:
            poll.register(self._previous, select.POLLIN)
        poll.poll(1000 * _POLL_SECONDS)

    def _send(self, parts: list[memoryview]) -> int:
        """Sends what fits without waiting; returns the number of bytes."""
        if not parts:
            return 0
        try:
            count = self._following.sendmsg(parts)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(1, error) from None
        _skip(parts, count)
        return count

    def _fill(self, parts: list[memoryview]) -> int:
        """Receives what is there without waiting; returns the number of bytes."""
        if not parts:
            return 0
        try:
            count = self._previous.recvmsg_into(parts)[0]
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(-1, error) from None
        if not count:
            raise self._lost(-1, ConnectionError("closed its connection"))
        _skip(parts, count)
        return count

    def _lost(self, offset: int, error: OSError) -> BaseException:
        """What to raise for a neighbor whose connection has failed."""
        return self._watch.lost((self._rank + offset) % self._num_learners, error)


def _skip(parts: list[memoryview], count: int) -> None:
    """Removes the first bytes of buffers."""
    while parts and count >= len(parts[0]):
        count -= len(parts.pop(0))
    if count:
        parts[0] = parts[0][count:]
