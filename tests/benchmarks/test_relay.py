import contextlib
import socket
import threading
import time

import pytest

from benchmarks.relay import DIRECT, Link, Relay


@pytest.fixture
def connect():
    """Makes both ends of connections that pass a relay: who connects, and who is connected to."""
    with contextlib.ExitStack() as stack:

        def make(link=DIRECT):
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server.settimeout(10)
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            relay = Relay(("127.0.0.1", port), server.getsockname(), link)
            stack.enter_context(contextlib.closing(relay))
            near = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            far = stack.enter_context(server.accept()[0])
            far.settimeout(10)
            return near, far, relay

        yield make


def receive(connection, count):
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        assert chunk, f"closed after {len(data)} of {count} bytes"
        data += chunk
    return data


def transfer_seconds(sender, receiver, data):
    """Seconds from the first byte that is sent to the last one that has come; checks them all."""
    start = time.monotonic()
    thread = threading.Thread(target=sender.sendall, args=[data])
    thread.start()
    assert receive(receiver, len(data)) == data
    thread.join()
    return time.monotonic() - start


def test_both_directions_pass_all_bytes_in_their_order(connect):
    near, far, _ = connect()
    there = bytes(range(256)) * 40_000  # More than the queue of the relay holds.
    back = there[::-1]
    threads = [
        threading.Thread(target=one.sendall, args=[data])
        for one, data in ((near, there), (far, back))
    ]
    for thread in threads:
        thread.start()
    results = {}
    readers = [
        threading.Thread(
            target=lambda one=one, name=name: results.update({name: receive(one, len(there))})
        )
        for name, one in (("there", far), ("back", near))
    ]
    for thread in readers:
        thread.start()
    for thread in [*threads, *readers]:
        thread.join(30)
    assert results == {"there": there, "back": back}


def test_a_message_is_delayed_and_those_behind_it_are_not_delayed_more(connect):
    near, far, _ = connect(Link(delay=0.2))
    start = time.monotonic()
    for byte in b"abcd":  # All are on their way at the same time.
        near.sendall(bytes([byte]))
    assert receive(far, 4) == b"abcd"
    assert 0.2 <= time.monotonic() - start < 0.7
    assert transfer_seconds(far, near, b"back") >= 0.2


def test_the_rate_is_limited_in_each_direction(connect):
    near, far, _ = connect(Link(rate=1e6))
    for sender, receiver in ((near, far), (far, near)):
        seconds = transfer_seconds(sender, receiver, bytes(300_000))
        # But for a burst of one packet.
        assert 0.298 <= seconds < 0.8


def test_delay_and_rate_add_up(connect):
    near, far, _ = connect(Link(delay=0.2, rate=1e6))
    assert transfer_seconds(near, far, bytes(100_000)) >= 0.298


def test_the_link_may_change_while_connections_are_open(connect):
    near, far, relay = connect()
    assert transfer_seconds(near, far, b"one") < 0.2
    relay.link = Link(delay=0.2)
    assert transfer_seconds(near, far, b"two") >= 0.2
    relay.link = DIRECT
    assert transfer_seconds(near, far, b"three") < 0.2


def test_the_end_of_a_stream_comes_after_its_bytes_and_leaves_the_other_direction_open(connect):
    near, far, _ = connect(Link(delay=0.1))
    near.sendall(b"last words")
    near.shutdown(socket.SHUT_WR)
    assert receive(far, 10) == b"last words"
    assert far.recv(1) == b""
    far.sendall(b"answer")
    assert receive(near, 6) == b"answer"
    far.close()
    assert near.recv(1) == b""


def test_a_connection_is_closed_where_nobody_listens_behind_the_relay():
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        here, nowhere = one.getsockname(), two.getsockname()
    with (
        contextlib.closing(Relay(here, nowhere)),
        socket.create_connection(here, 10) as connection,
    ):
        assert connection.recv(1) == b""


def test_closing_the_relay_closes_its_connections(connect):
    near, far, relay = connect()
    transfer_seconds(near, far, b"open")
    relay.close()
    assert near.recv(1) == far.recv(1) == b""
