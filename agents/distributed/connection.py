"""Messages between two learners: lines of JSON over TCP, after both have shown that they know a key.

Nothing that arrives is executed or unpickled. The key keeps strangers out; nothing is encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import socket
import threading
from typing import Any

from agents.distributed.cluster import Address

# A learner's connection is dropped if it sends a longer line, in bytes.
MAX_LINE_BYTES = 1 << 20

_NONCE_BYTES = 32
_SEND_SECONDS = 5.0

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
        self._unread, self._lock = b"", threading.Lock()
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
        messages, self._received = self._received + [_parse(line) for line in lines], []
        return messages

    def receive_one(self, timeout: float) -> Message:
        """Returns the next message, and waits for it if it has not come.

        Raises:
          ConnectionError, TimeoutError: As `receive`.
        """
        self.socket.settimeout(max(timeout, 0.001))
        while not self._received:
            self._received = self.receive()
        self.socket.settimeout(_SEND_SECONDS)
        return self._received.pop(0)

    def close(self) -> None:
        """Closes the connection; may be called again."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def connect(address: Address, key: bytes, hello: Message, timeout: float) -> Connection:
    """Connects to a learner that listens, and introduces this one.

    Raises:
      OSError: It does not listen, does not answer, or does not know the key.
    """
    connection = Connection(socket.create_connection(address, timeout))
    try:
        nonce = os.urandom(_NONCE_BYTES).hex()
        challenge = connection.receive_one(timeout)
        line = json.dumps(hello)
        proof = _sign(key, "client", str(challenge.get("nonce")), line)
        connection.send({"hello": line, "nonce": nonce, "proof": proof})
        answer = connection.receive_one(timeout)
        if not hmac.compare_digest(str(answer.get("proof")), _sign(key, "server", nonce, line)):
            raise ConnectionError("does not know the key")
    except BaseException:
        connection.close()
        raise
    return connection


def accept(listener: socket.socket, key: bytes, timeout: float) -> tuple[Connection, Message]:
    """Accepts the next connection of somebody who knows the key; returns it with the hello.

    Raises:
      OSError: Nobody connects in time, or who does isn't a learner of this run.
    """
    listener.settimeout(timeout)
    connected, _ = listener.accept()
    connection = Connection(connected)
    try:
        nonce = os.urandom(_NONCE_BYTES).hex()
        connection.send({"nonce": nonce})
        message = connection.receive_one(min(timeout, 2.0))
        line = str(message.get("hello"))
        expected = _sign(key, "client", nonce, line)
        if not hmac.compare_digest(str(message.get("proof")), expected):
            raise ConnectionError("does not know the key")
        connection.send({"proof": _sign(key, "server", str(message.get("nonce")), line)})
        return connection, _parse(line.encode())
    except BaseException:
        connection.close()
        raise


def _sign(key: bytes, side: str, nonce: str, line: str) -> str:
    return hmac.new(key, f"{side} {nonce} {line}".encode(), hashlib.sha256).hexdigest()


def _parse(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except ValueError:
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
