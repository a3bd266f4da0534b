"""Who is let in, and that nobody else is in the way."""

import contextlib
import json
import os
import pickle
import socket
import struct
import threading
import time

import pytest

from agents.distributed import connection as connections
from agents.distributed.cluster import Address, listen
from agents.distributed.connection import MAX_LINE_BYTES, Connection, arrivals, connect
from tests.distributed.exchanges import results, together
from tests.distributed.meetings import KEY, num_descriptors

HELLO = {"rank": 1, "host": "10.0.0.2", "settings": {"network": [64, 64], "name": "ü"}}


@contextlib.contextmanager
def entrance(key=KEY, seconds=10):
    """Yields an address, a function that waits for so many arrivals there, and these."""
    listener, arrived = listen(Address("127.0.0.1", 0)), []
    deadline = time.monotonic() + seconds

    def wait(count):
        for connection, hello in arrivals(
            listener, key, lambda: len(arrived) >= count or time.monotonic() > deadline
        ):
            arrived.append((connection, hello))

    try:
        yield Address(*listener.getsockname()), wait, arrived
    finally:
        listener.close()
        for connection, _ in arrived:
            connection.close()


def raw(address):
    return socket.create_connection(address, 5)


def test_both_sides_know_the_key():
    with entrance() as (address, wait, arrived):
        learner, _ = results(lambda: connect(address, KEY, HELLO, 5), lambda: wait(1))
        [(chief, hello)] = arrived
        assert hello == HELLO
        assert chief.send({"kind": "welcome"}) and learner.receive_one(5) == {"kind": "welcome"}
        assert learner.send({"kind": "thanks"}) and chief.receive_one(5) == {"kind": "thanks"}
        learner.close()


@pytest.mark.parametrize("other", [b"", b"another", KEY + b"x"])
def test_a_learner_with_another_key_is_refused_and_told_so(other):
    with entrance() as (address, wait, arrived):

        def learn():
            with pytest.raises(ConnectionError, match="has another key"):
                connect(address, other, HELLO, 5)
            return connect(address, KEY, HELLO, 5)

        learner, _ = results(learn, lambda: wait(1))
        learner.close()
        assert len(arrived) == 1


def test_a_chief_with_another_key_is_refused():
    """It can neither make up a proof nor send back that of the learner."""
    for answer in (
        {"proof": "0" * 64},
        {"proof": None},
        {"refused": "another key"},
        {},
        {"proof": "ü"},
        "mirror",
    ):
        with listen(Address("127.0.0.1", 0)) as listener:

            def deceive(listener=listener, answer=answer):
                with contextlib.closing(Connection(listener.accept()[0])) as connection:
                    connection.send({"nonce": "00"})
                    message = connection.receive_one(5)
                    connection.send(message if answer == "mirror" else answer)

            outcome, _ = together(
                lambda listener=listener: connect(listener.getsockname(), KEY, HELLO, 5), deceive
            )
            assert isinstance(outcome, ConnectionError) and "another key" in str(outcome)


def test_a_proof_is_for_one_connection_only():
    """What a stranger has overheard does not let it in."""
    overheard = []
    with entrance() as (address, wait, arrived):
        with listen(Address("127.0.0.1", 0)) as listener:

            def relay():
                """Passes lines on, as a stranger on the way would."""
                there, here = raw(address), listener.accept()[0]
                for source, target in ((there, here), (here, there), (there, here)):
                    overheard.append(source.makefile("rb").readline())
                    target.sendall(overheard[-1])
                there.close()
                here.close()

            learner, _, _ = results(
                lambda: connect(listener.getsockname(), KEY, HELLO, 5), relay, lambda: wait(1)
            )
            learner.close()

        def replay():
            with raw(address) as stranger:
                stranger.makefile("rb").readline()
                stranger.sendall(overheard[1])
                answer = stranger.makefile("rb").read()
            connect(address, KEY, HELLO, 5).close()
            return answer

        answer, _ = results(replay, lambda: wait(2))
        assert b"proof" not in answer and b"refused" in answer
        assert len(arrived) == 2


STRANGERS = {
    "silent": b"",
    "random bytes": os.urandom(1000) + b"\n",
    "no line": b"x" * 1000,
    "a web browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a very long line": b"x" * (MAX_LINE_BYTES + (1 << 17)),
    "a pickle": pickle.dumps(print) + b"\n",
    "no dictionary": b"[1, 2]\n",
    "deep lists": b"[" * 100_000 + b"\n",
    "a large number": b"1" * 100_000 + b"\n",
    "no proof": b'{"hello": "{}"}\n',
    "no hello": b"{}\n",
    "a wrong proof": json.dumps({"hello": "{}", "nonce": "0", "proof": "0" * 64}).encode() + b"\n",
    "a proof in umlauts": '{"hello": "{}", "nonce": "0", "proof": "ü"}\n'.encode(),
    "half a character": b'{"hello": "\\ud800", "nonce": "\\udfff", "proof": "\\ud800"}\n',
    "other types": b'{"hello": {"a": 1}, "nonce": [], "proof": 5}\n',
    "empty lines": b"\n\n\n",
}


@pytest.mark.timing
@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("name", STRANGERS)
def test_strangers_neither_end_nor_delay_the_wait(name, closes):
    with entrance() as (address, wait, arrived):
        strangers = [raw(address) for _ in range(3)]

        def disturb():
            for stranger in strangers:
                with contextlib.suppress(OSError):
                    stranger.sendall(STRANGERS[name])
                if closes:
                    stranger.close()
            return connect(address, KEY, HELLO, 5)

        start = time.monotonic()
        learner, _ = results(disturb, lambda: wait(1))
        assert time.monotonic() - start < 25
        assert [hello for _, hello in arrived] == [HELLO]
        for one in (*strangers, learner):
            one.close()


def test_strangers_that_reset_their_connection():
    with entrance() as (address, wait, arrived):

        def disturb():
            for _ in range(20):
                stranger = raw(address)
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                stranger.close()
            return connect(address, KEY, HELLO, 5)

        learner, _ = results(disturb, lambda: wait(1))
        learner.close()
        assert len(arrived) == 1


@pytest.mark.timing
@pytest.mark.parametrize("dripping", [False, True])
def test_many_patient_strangers_do_not_keep_a_learner_waiting(dripping):
    with entrance() as (address, wait, arrived):
        strangers = [raw(address) for _ in range(connections.MAX_STRANGERS + 20)]
        done = threading.Event()

        def drip():
            while dripping and not done.wait(0.01):
                for stranger in strangers:
                    with contextlib.suppress(OSError):
                        stranger.sendall(b"x")

        def learn():
            try:
                start = time.monotonic()
                learner = connect(address, KEY, HELLO, 5)
                return learner, time.monotonic() - start
            finally:
                done.set()

        (learner, seconds), _, _ = results(learn, lambda: wait(1), drip)
        assert seconds < 25 and len(arrived) == 1
        for one in (*strangers, learner):
            one.close()


def test_only_so_many_strangers_are_kept(monkeypatch):
    monkeypatch.setattr(connections, "MAX_STRANGERS", 5)
    with entrance() as (address, wait, arrived):
        before = num_descriptors()
        strangers = [raw(address) for _ in range(30)]
        counts = []

        def learn():
            learner = connect(address, KEY, HELLO, 5)
            counts.append(num_descriptors() - before - len(strangers))
            return learner

        learner, _ = results(learn, lambda: wait(1))
        assert counts[0] <= 5 + 2 + 2  # The learner's two ends, and a folder that is listed.
        for one in (*strangers, learner):
            one.close()
        assert num_descriptors() == before + 1  # The chief's end.
