"""Messages between two learners: lines of JSON over TCP, after both have shown that they know a key.

Nothing that arrives is executed or unpickled. The key keeps strangers out; nothing is encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from agents.distributed.cluster import Address
from agents.types import PlainData

# A learner's connection is dropped if it sends a longer line, in bytes.
MAX_LINE_BYTES = 1 << 20

# Connections of those who have not shown yet that they know the key; the oldest is dropped for more.
MAX_STRANGERS = 128

_NONCE_BYTES = 32
_SEND_SECONDS = 5.0
_POLL_SECONDS = 0.2
_CLOSES_AT_ONCE = struct.pack("ii", 1, 0)

Message = dict[str, Any]


class Connection:
    """One side of a connection.

    Attributes:
      socket: The socket.
    """

    def __init__(self, connected: socket.socket):
        """Takes over a socket."""
        self.socket = connected
        connected.settimeout(_SEND_SECONDS)
        _detect_dead_links(connected)
        # A signal's handler may send in the middle of what its thread sends.
        self._unread, self._lock = b"", threading.RLock()
        self._received: list[Message] = []  # More than was asked for.

    def send(self, message: Message) -> bool:
        """Sends a message from any thread; returns whether the other side may get it."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._lock:
                self.socket.sendall(line)
        except OSError:
            return False
        return True

    def receive(self) -> list[Message]:
        """Waits for more of what the other side sends, and returns the messages that have come.

        Raises:
          ConnectionError: The other side has closed the connection, or sends something else.
          TimeoutError: Nothing has arrived for some seconds.
        """
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed its connection")
        *lines, self._unread = (self._unread + data).split(b"\n")
        if len(self._unread) > MAX_LINE_BYTES:
            raise ConnectionError("sent too long a message")
        return self.take_received() + [_parse(line) for line in lines]

    def receive_one(self, timeout: float) -> Message:
        """Returns the next message, and waits for it if it has not come.

        Raises:
          ConnectionError: As `receive`.
          TimeoutError: It has not come in time.
        """
        deadline = time.monotonic() + timeout
        try:
            while not self._received:
                if (left := deadline - time.monotonic()) <= 0:
                    raise TimeoutError("timed out")
                self.socket.settimeout(left)
                self._received = self.receive()
        finally:
            self.socket.settimeout(_SEND_SECONDS)
        return self._received.pop(0)

    def take_received(self) -> list[Message]:
        """Returns messages that have come together with others, without waiting."""
        messages, self._received = self._received, []
        return messages

    def is_readable(self) -> bool:
        """Whether the other side has sent something, or has closed the connection."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(self._received or poll.poll(0))

    def close(self, timeout: float = 0.0) -> None:
        """Closes the connection; may be called again.

        Args:
          timeout: Seconds for the other side to receive what was sent, and to close its own.
        """
        deadline = time.monotonic() + timeout
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                if not self.socket.recv(1 << 16):
                    break
        self.socket.close()


def connect(address: Address, key: bytes, hello: Message, timeout: float) -> Connection:
    """Connects to a learner that listens, and introduces this one.

    Raises:
      OSError: It does not listen, does not answer in time, or does not know the key.
    """
    deadline = time.monotonic() + timeout
    connection = Connection(socket.create_connection(address, timeout))
    try:
        if connection.socket.getsockname() == connection.socket.getpeername():
            # The system chose the same port for this side. Closed like this, it is free at once.
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSES_AT_ONCE)
            connection.socket.close()
            raise ConnectionError("does not listen")
        nonce = os.urandom(_NONCE_BYTES).hex()
        challenge = connection.receive_one(deadline - time.monotonic())
        line = json.dumps(hello)
        proof = _sign(key, "client", challenge.get("nonce"), line)
        connection.send({"hello": line, "nonce": nonce, "proof": proof})
        answer = connection.receive_one(deadline - time.monotonic())
        if not _is_equal(answer.get("proof"), _sign(key, "server", nonce, line)):
            raise ConnectionError("has another key")
    except BaseException:
        connection.close()
        raise
    return connection


def arrivals(
    listener: socket.socket, key: bytes, is_over: Callable[[], bool]
) -> Iterator[tuple[Connection, Message]]:
    """Yields connections of those who know the key, with their hellos, until `is_over`.

    Others may connect and say anything, or nothing: nobody waits for them.
    """
    strangers: dict[int, tuple[Connection, str]] = {}  # By descriptor, with the nonce.
    listener.setblocking(False)
    try:
        while not is_over():
            poll = select.poll()
            for descriptor in (listener.fileno(), *strangers):
                poll.register(descriptor, select.POLLIN)
            for descriptor, _ in poll.poll(1000 * _POLL_SECONDS):
                if descriptor == listener.fileno():
                    with contextlib.suppress(OSError):
                        connection, nonce = _challenge(listener)
                        strangers[connection.socket.fileno()] = connection, nonce
                elif descriptor in strangers:
                    connection, nonce = strangers.pop(descriptor)
                    try:
                        hello = _read_hello(connection, key, nonce)
                    except OSError:
                        connection.close()
                        continue
                    if hello is None:
                        strangers[descriptor] = connection, nonce
                    else:
                        yield connection, hello
            while len(strangers) > MAX_STRANGERS:
                strangers.pop(next(iter(strangers)))[0].close()
    finally:
        for connection, _ in strangers.values():
            connection.close()


def describe_failure(error: OSError) -> str:
    """What the other side of a connection has done, such as "closed its connection"."""
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "closed its connection"  # Before it had read all that was sent to it.
    return f"can't be reached: {error.strerror}" if error.strerror else str(error)


def _challenge(listener: socket.socket) -> tuple[Connection, str]:
    """Accepts a connection; asks for a proof that the other side knows the key."""
    connection, nonce = Connection(listener.accept()[0]), os.urandom(_NONCE_BYTES).hex()
    connection.send({"nonce": nonce})
    return connection, nonce


def _read_hello(connection: Connection, key: bytes, nonce: str) -> Message | None:
    """Returns what a learner says about itself; None if more of it is to come.

    Raises:
      OSError: It does not know the key, or closes the connection.
    """
    messages = connection.receive()
    if not messages:
        return None
    line, proof = str(messages[0].get("hello")), messages[0].get("proof")
    if not _is_equal(proof, _sign(key, "client", nonce, line)):
        connection.send({"refused": "has another key"})
        raise ConnectionError("has another key")
    connection.send({"proof": _sign(key, "server", messages[0].get("nonce"), line)})
    return _parse(line)


def _sign(key: bytes, side: str, nonce: PlainData, line: str) -> str:
    return hmac.new(key, json.dumps([side, nonce, line]).encode(), hashlib.sha256).hexdigest()


def _is_equal(proof: PlainData, expected: str) -> bool:
    return hmac.compare_digest(str(proof).encode("ascii", "replace"), expected.encode())


def _parse(line: bytes | str) -> Message:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise ConnectionError("sent something else than messages") from None
    if not isinstance(message, dict):
        raise ConnectionError("sent something else than messages")
    return message


def _detect_dead_links(connected: socket.socket) -> None:
    """Sends at once, and lets the connection fail some seconds after its link does."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {
        "TCP_KEEPIDLE": 4,  # Seconds.
        "TCP_KEEPINTVL": 2,  # Seconds.
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": 10_000,  # Milliseconds.
    }.items():
        if option := getattr(socket, name, None):
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
