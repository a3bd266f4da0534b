import contextlib
import os
import random
import socket
import threading
import time

import pytest

from agents.tools import channel as channels
from agents.tools.channel import Channel, ChannelClosed, map_line
from agents.tools.shared_arrays import anonymous_file


@contextlib.contextmanager
def pair(**kwargs):
    """Both ends, in this process."""
    descriptor = anonymous_file(channels.LINE_BYTES)
    bells, messages = socket.socketpair(), socket.socketpair()
    parent, worker = (
        Channel(map_line(descriptor), bell, message, parent=is_parent, **(kwargs if is_parent else {}))
        for bell, message, is_parent in zip(bells, messages, (True, False), strict=True)
    )
    os.close(descriptor)
    try:
        yield parent, worker
    finally:
        parent.close()
        worker.close()


@contextlib.contextmanager
def running(function):
    """Runs a function in a thread; what it raises is raised here in the end."""
    failures = []

    def run():
        try:
            function()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def test_takes_turns_with_and_without_messages():
    turns = 300
    with pair() as (parent, worker):

        def serve():
            for turn in range(1, turns + 1):
                worker.wait_count(turn, timeout=10)
                if turn % 7 == 0:  # Long enough for the other side to be asleep.
                    time.sleep(2 * channels.SPIN_SECONDS)
                worker.line[channels.STATUS] = turn
                worker.raise_count(turn)
                if turn % 3 == 0:
                    worker.send(turn, b"x" * turn, timeout=10)

        with running(serve):
            for turn in range(1, turns + 1):
                parent.raise_count(turn)
                parent.wait_count(turn, timeout=10)
                assert parent.line[channels.STATUS] == turn
                if turn % 3 == 0:
                    assert parent.receive(turn, timeout=10) == (b"x" * turn, [])


def test_a_count_is_not_reached_before_it_is():
    with pair() as (parent, worker):
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            parent.wait_count(1, timeout=0.1)
        assert time.monotonic() - start >= 0.1
        worker.raise_count(1)
        parent.wait_count(1, timeout=0.1)


def test_a_count_beyond_the_one_waited_for_will_do():
    with pair() as (parent, worker):
        parent.raise_count(2)
        worker.wait_count(1, timeout=0)


def test_a_lost_ring_costs_little():
    with pair() as (parent, worker):

        def raise_silently():
            time.sleep(0.1)
            worker.line[channels.WORKER_COUNT] = 1

        with running(raise_silently):
            start = time.monotonic()
            parent.wait_count(1, timeout=30)
            assert time.monotonic() - start < 5


def test_a_ring_wakes_a_sleeper_at_once(monkeypatch):
    monkeypatch.setattr(channels, "NAP_SECONDS", 20)
    with pair() as (parent, worker):

        def ring():
            time.sleep(0.1)
            worker.raise_count(1)

        with running(ring):
            start = time.monotonic()
            parent.wait_count(1, timeout=30)
            assert time.monotonic() - start < 5


def test_the_end_of_the_other_side_is_noticed_by_who_waits_and_who_sends():
    with pair() as (parent, worker):
        with running(lambda: (time.sleep(0.1), worker.close())):
            start = time.monotonic()
            with pytest.raises(ChannelClosed):
                parent.wait_count(1, timeout=30)
            assert time.monotonic() - start < 5
        with pytest.raises(ChannelClosed):
            parent.receive(1, timeout=5)
        with pytest.raises(ChannelClosed):
            parent.send(1, b"x" * 1000, timeout=5)
        parent.raise_count(1)  # Rings in vain.


def test_the_end_is_noticed_though_a_copy_of_a_socket_is_open():
    with pair() as (parent, worker):
        copies = [socket.socket(fileno=os.dup(end.fileno())) for end in (worker._bell, worker._messages)]
        worker.close()
        with pytest.raises(ChannelClosed):
            parent.wait_count(1, timeout=5)
        with pytest.raises(ChannelClosed):
            parent.receive(1, timeout=5)
        for copy in copies:
            copy.close()


def test_the_end_of_a_process_is_noticed_though_its_sockets_outlive_it():
    with pair(other_ended=lambda: True) as (parent, _):
        with pytest.raises(ChannelClosed):
            parent.wait_count(1, timeout=30)


def test_an_answer_given_before_the_end_counts():
    with pair(other_ended=lambda: True) as (parent, worker):
        worker.raise_count(1)
        worker.send(1, b"last words", timeout=1)
        worker.close()
        parent.wait_count(1, timeout=5)
        assert parent.receive(1, timeout=5)[0] == b"last words"


def test_earlier_messages_are_passed_over():
    with pair() as (parent, worker):
        for turn in range(1, 5):
            worker.send(turn, f"answer {turn}".encode(), timeout=1)
        assert parent.receive(3, timeout=1)[0] == b"answer 3"
        assert parent.receive(4, timeout=1)[0] == b"answer 4"
        with pytest.raises(TimeoutError):
            parent.receive(5, timeout=0.05)


def test_a_message_that_comes_in_pieces_survives_timeouts():
    with pair() as (parent, worker):
        whole = channels._HEADER.pack(1, 1000) + bytes(random.Random(0).randbytes(1000))
        cuts = [0, 5, 16, 17, 900, len(whole)]
        for start, stop in zip(cuts, cuts[1:-1], strict=False):
            worker._messages.sendall(whole[start:stop])
            with pytest.raises(TimeoutError):
                parent.receive(1, timeout=0.02)
        worker._messages.sendall(whole[cuts[-2] :])
        worker.send(2, b"next", timeout=1)
        assert parent.receive(1, timeout=1)[0] == whole[16:]
        assert parent.receive(2, timeout=1)[0] == b"next"


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_messages_of_any_size_in_both_directions(size):
    data = random.Random(size).randbytes(size)
    with pair() as (parent, worker), running(lambda: worker.send(7, data, timeout=10)):
        assert parent.receive(7, timeout=10)[0] == data
        with running(lambda: parent.send(8, data, timeout=10)):
            assert worker.receive(8, timeout=10)[0] == data


def test_nobody_reading_ends_in_a_timeout():
    with pair() as (parent, _):
        with pytest.raises(TimeoutError):
            parent.send(1, bytes(5_000_000), timeout=0.05)


def test_descriptors_come_with_their_message_and_are_closed_with_one_passed_over():
    with pair() as (parent, worker):
        reading, writing = os.pipe()
        parent.send(1, b"", 1, (reading,))
        parent.send(2, b"take it", 1, (reading,))
        os.close(reading)
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
        data, (descriptor,) = worker.receive(2, timeout=1)
        assert before is None or len(os.listdir("/proc/self/fd")) == before + 1
        os.write(writing, b"hello")
        assert (data, os.read(descriptor, 5)) == (b"take it", b"hello")
        os.close(writing)
        os.close(descriptor)


def test_closing_twice_is_fine():
    with pair() as (parent, _):
        parent.close()
        parent.close()
