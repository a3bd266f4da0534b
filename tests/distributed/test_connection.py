import contextlib
import json
import socket
import threading
import time

import hypothesis
import pytest
from hypothesis import strategies

from agents.distributed.cluster import Address, listen
from agents.distributed.connection import MAX_LINE_BYTES, Connection, connect, describe_failure
from tests.distributed.exchanges import connected_pair, results, together
from tests.distributed.meetings import KEY, wait_for

HELLO = {"rank": 1}


@contextlib.contextmanager
def joined():
    """Yields both sides of a connection."""
    pair = [Connection(one) for one in connected_pair()]
    try:
        yield pair
    finally:
        for one in pair:
            one.close()


@hypothesis.given(
    strategies.lists(strategies.binary(max_size=40) | strategies.just(b"\n"), max_size=6)
)
@hypothesis.settings(deadline=None, max_examples=50)
def test_any_bytes_are_messages_or_an_error(chunks):
    with joined() as (one, other):
        for chunk in chunks:
            one.socket.sendall(chunk)
        one.socket.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionError):
            while True:
                assert all(isinstance(message, dict) for message in other.receive())


@hypothesis.given(
    strategies.lists(
        strategies.dictionaries(
            strategies.text(max_size=5),
            strategies.text() | strategies.integers() | strategies.none(),
        ),
        min_size=1,
        max_size=5,
    ),
    strategies.integers(1, 50),
)
@hypothesis.settings(deadline=None, max_examples=50)
def test_messages_arrive_however_they_are_cut(messages, size):
    data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    with joined() as (one, other):

        def send():
            for start in range(0, len(data), size):
                one.socket.sendall(data[start : start + size])

        _, received = results(send, lambda: [other.receive_one(5) for _ in messages])
        assert received == messages


def test_messages_that_came_together_are_not_lost():
    """Neither when the connection is closed right after them."""
    with joined() as (one, other):
        one.socket.sendall(b'{"n": 1}\n{"n": 2}\n{"n": 3}\n{"n"')
        assert other.receive_one(5) == {"n": 1} and other.is_readable()
        assert other.receive_one(5) == {"n": 2}
        one.socket.sendall(b": 4}\n")
        one.close()
        assert other.receive() == [{"n": 3}, {"n": 4}]
        assert other.take_received() == []
        with pytest.raises(ConnectionError, match="closed its connection"):
            other.receive()
    with joined() as (one, other):
        one.socket.sendall(b'{"n": 1}\n{"n": 2}\n')
        one.close()
        assert other.receive_one(5) == {"n": 1}
        assert other.take_received() == [{"n": 2}]


@pytest.mark.timing
def test_waiting_ends_in_time_although_bytes_drip():
    with joined() as (one, other):
        done = threading.Event()

        def drip():
            while not done.wait(0.01):
                one.socket.sendall(b"x")

        def wait():
            start = time.monotonic()
            with pytest.raises(TimeoutError):
                other.receive_one(0.3)
            done.set()
            return time.monotonic() - start

        _, seconds = results(drip, wait)
        assert 0.3 <= seconds < 25


def test_a_line_that_does_not_end_is_refused():
    with joined() as (one, other):

        def send():
            with contextlib.suppress(OSError):
                one.socket.sendall(b"x" * (2 * MAX_LINE_BYTES))

        def receive():
            with pytest.raises(ConnectionError, match="too long"):
                other.receive_one(5)
            other.close()

        results(send, receive)


def test_is_readable_once_something_has_come():
    with joined() as (one, other):
        assert not other.is_readable()
        one.send({})
        assert wait_for(other.is_readable)
        other.receive_one(5)
        assert not other.is_readable()
        one.close()
        assert wait_for(other.is_readable)


def test_sending_to_nobody_returns_false():
    with joined() as (one, other):
        other.close()
        assert wait_for(lambda: not one.send({"kind": "alive"}))
        one.close()
        assert not one.send({"kind": "alive"})
        one.close()


def test_many_threads_send_whole_messages():
    with joined() as (one, other):
        text, count = "x" * 10_000, 100

        def send(number):
            for _ in range(count):
                assert one.send({"number": number, "text": text})

        def receive():
            return [other.receive_one(5) for _ in range(4 * count)]

        *_, received = results(*(lambda n=n: send(n) for n in range(4)), receive)
        assert all(message["text"] == text for message in received)


def test_a_signal_handler_may_send_while_its_thread_sends():
    """The handler runs in the middle of what it has interrupted, with the lock held."""
    with joined() as (one, other):

        def learn():
            with one._lock:
                return one.send({"kind": "stop"})

        assert together(learn, seconds=2) == [True]
        assert other.receive_one(2) == {"kind": "stop"}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "closed its connection"),
        (BrokenPipeError(32, "Broken pipe"), "closed its connection"),
        (TimeoutError(110, "Connection timed out"), "can't be reached: Connection timed out"),
        (ConnectionError("sent too long a message"), "sent too long a message"),
        (TimeoutError("timed out"), "timed out"),
    ],
)
def test_failures_are_what_a_learner_has_done(error, text):
    assert describe_failure(error) == text


@pytest.mark.timing
def test_who_does_not_listen_is_an_error_at_once():
    with listen(Address("127.0.0.1", 0)) as listener:
        address = Address(*listener.getsockname())
    for one in (address, Address("no-such-host.invalid", 2222)):
        start = time.monotonic()
        with pytest.raises(OSError):
            connect(one, KEY, HELLO, 5)
        assert time.monotonic() - start < 25


def test_a_socket_that_the_system_connects_to_itself_does_not_listen(monkeypatch):
    """On one machine, if it picks the port of a chief that is not there yet for the learner's side."""
    with listen(Address("127.0.0.1", 0)) as listener:
        address = Address(*listener.getsockname())
    create = socket.create_connection

    def create_to_itself(target, timeout):
        return create(target, timeout, source_address=tuple(address))

    monkeypatch.setattr(socket, "create_connection", create_to_itself)
    with pytest.raises(ConnectionError, match="does not listen"):
        connect(address, KEY, HELLO, 5)
    listen(address).close()  # The chief still gets its port.


@pytest.mark.timing
@pytest.mark.parametrize("says", [b"", b'{"nonce": "00"}\n', b"hello?\n", b"x"])
def test_who_does_not_answer_is_an_error_in_time(says):
    with listen(Address("127.0.0.1", 0)) as listener:
        start = time.monotonic()

        def connect_in_vain():
            with pytest.raises(OSError):
                connect(listener.getsockname(), KEY, HELLO, 0.4)
            return time.monotonic() - start

        def say():
            with listener.accept()[0] as connected:
                connected.sendall(says)
                while connected.recv(1 << 16):
                    pass

        seconds, _ = results(connect_in_vain, say)
        assert seconds < 25


def test_dead_links_are_found_out():
    with joined() as (one, _):
        assert one.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert one.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        seconds = [
            one.socket.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        ]
        assert seconds[0] + seconds[1] * seconds[2] <= 15
