import concurrent.futures
import contextlib
import os
import random
import socket
import threading
import time

import pytest

from agents import stop_signals
from agents.workers import channel as channels
from agents.workers.channel import Channel, ChannelClosed, map_words, wait_until
from agents.workers.shared_block import create_anonymous_file


@pytest.fixture(params=["ordered", "rings only"], autouse=True)
def writes(request, monkeypatch):
    """Both kinds of processors; on those whose writes have no order, rings are the counters."""
    monkeypatch.setattr(channels, "ORDERED_WRITES", request.param == "ordered")


def after(seconds):
    """A deadline in so many seconds."""
    return time.monotonic() + seconds


@contextlib.contextmanager
def pair(other_exited=lambda: False):
    """Yields both sides, in this process."""
    descriptor = create_anonymous_file(channels.SHARED_BYTES)
    doorbells, messages = socket.socketpair(), socket.socketpair()
    parent = Channel(map_words(descriptor), doorbells[0], messages[0], True, other_exited)
    worker = Channel(map_words(descriptor), doorbells[1], messages[1], False)
    os.close(descriptor)
    with contextlib.closing(parent), contextlib.closing(worker):
        yield parent, worker


@contextlib.contextmanager
def running(function):
    """Runs a function in a thread; its exception is raised here at the end."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        future = threads.submit(function)
        yield
        future.result(30)


def test_a_counter_without_order_counts_the_rings_that_were_received(monkeypatch):
    monkeypatch.setattr(channels, "ORDERED_WRITES", False)
    with pair() as (parent, worker):
        worker.words[channels.WORKER_COUNT] = 5  # May be visible before what was written before.
        assert not parent.has_count(1)
        for count in (1, 2):
            worker.set_count(count)
        assert parent.has_count(2) and not parent.has_count(3)


ROOM = channels.SHARED_BYTES - channels.WORDS_BYTES
LENGTHS = [0, 1, ROOM - 1, ROOM, ROOM + 1, 5_000_000]


def test_takes_turns_with_messages_of_any_length_in_both_directions():
    turns = list(enumerate(40 * [0, 0, 0, 0, 0, 7] + LENGTHS, 1))
    data = os.urandom(max(LENGTHS))
    with pair() as (parent, worker):

        def serve():
            for turn, length in turns:
                worker.wait_count(turn, deadline=after(10))
                if turn % 7 == 0:  # Until the other side sleeps.
                    time.sleep(2 * channels.SPIN_SECONDS)
                if length:
                    assert worker.receive(turn, deadline=after(10)) == (data[:length], [])
                worker.reply(turn, turn + 1, data[:length])

        with running(serve):
            for turn, length in turns:
                parent.set_count(turn)
                if length:
                    parent.send(turn, data[:length], deadline=after(10))
                assert parent.wait_reply(turn, after(10)) == (turn + 1, data[:length])


@pytest.mark.timing
def test_waits_time_out_a_lost_ring_delays_briefly_and_a_ring_wakes_up_immediately(monkeypatch):
    with pair() as (parent, worker):
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            parent.wait_count(1, deadline=after(0.1))
        assert time.monotonic() - start >= 0.1
        with pytest.raises(TimeoutError):  # The other side does not read.
            parent.send(1, bytes(5_000_000), deadline=after(0.05))
        ways = [lambda: worker.set_count(1)]
        if channels.ORDERED_WRITES:  # Otherwise every turn rings.
            ways.append(lambda: worker.words.__setitem__(channels.WORKER_COUNT, 2))
        for count, way in enumerate(ways, 1):
            monkeypatch.setattr(channels, "SLEEP_SECONDS", 600 if count == 1 else 0.02)
            with running(lambda way=way: (time.sleep(0.1), way())):
                parent.wait_count(count, deadline=after(600))
        assert time.monotonic() - start < 60


@pytest.mark.timing
@pytest.mark.parametrize("forked", [False, True])
def test_a_closed_channel_is_noticed_when_waiting_receiving_and_sending(forked):
    with pair() as (parent, worker), contextlib.ExitStack() as copies:
        if forked:  # Another process has copies of the sockets.
            for end in (worker._doorbell, worker._messages):
                copies.enter_context(socket.socket(fileno=os.dup(end.fileno())))
        with running(lambda: (time.sleep(0.1), worker.close())):
            start = time.monotonic()
            with pytest.raises(ChannelClosed):
                parent.wait_count(1, deadline=after(600))
            assert time.monotonic() - start < 60
        with pytest.raises(ChannelClosed):
            parent.receive(1, deadline=after(5))
        with pytest.raises(ChannelClosed):
            parent.send(1, b"x" * 1000, deadline=after(5))
        parent.set_count(1)  # Nobody hears the doorbell.


def test_a_reply_of_a_process_that_has_exited_is_received_and_no_other_waited_for():
    with pair(other_exited=lambda: True) as (parent, worker):
        worker.set_count(1)
        worker.send(1, b"last words", deadline=after(1))
        parent.wait_count(1, deadline=after(5))
        assert parent.receive(1, deadline=after(5))[0] == b"last words"
        with pytest.raises(ChannelClosed):  # Its sockets are open.
            parent.wait_count(2, deadline=after(600))


def test_messages_of_earlier_turns_are_discarded_and_pieces_survive_timeouts():
    with pair() as (parent, worker):
        for turn in range(1, 5):
            worker.send(turn, f"reply {turn}".encode(), deadline=after(1))
        assert parent.receive(3, deadline=after(1))[0] == b"reply 3"
        assert parent.receive(4, deadline=after(1))[0] == b"reply 4"
        whole = channels._HEADER.pack(5, 1000) + random.Random(0).randbytes(1000)
        cuts = [0, 5, 16, 17, 900]
        for start, stop in zip(cuts, [*cuts[1:], None], strict=True):
            with pytest.raises(TimeoutError):
                parent.receive(5, deadline=after(0.02))
            worker._messages.sendall(whole[start:stop])
        worker.send(6, b"next", deadline=after(1))
        assert parent.receive(5, deadline=after(1))[0] == whole[16:]
        assert parent.receive(6, deadline=after(1))[0] == b"next"


def test_descriptors_arrive_with_their_message_and_are_closed_with_a_discarded_one():
    with pair() as (parent, worker):
        reading, writing = os.pipe()
        parent.send(1, b"", after(1), (reading,))
        parent.send(2, b"take it", after(1), (reading,))
        os.close(reading)
        before = len(os.listdir("/proc/self/fd"))
        data, (descriptor,) = worker.receive(2, deadline=after(1))
        assert len(os.listdir("/proc/self/fd")) == before + 1
        os.write(writing, b"hello")
        assert (data, os.read(descriptor, 5)) == (b"take it", b"hello")
        os.close(writing)
        os.close(descriptor)


# Several channels.


def wait_for(pairs, count, while_waiting=lambda: None):
    """Waits until so many of the workers have counted to 1; returns which."""
    parents = [parent for parent, _ in pairs]
    counted = []

    def is_enough():
        counted[:] = [index for index, parent in enumerate(parents) if parent.has_count(1)]
        return len(counted) >= count

    wait_until(is_enough, parents, while_waiting)
    assert not any(parent.words[channels.PARENT_ASLEEP] for parent in parents)
    return counted


def test_waits_for_the_first_of_several_workers_even_if_one_is_gone(monkeypatch):
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(pair()) for _ in range(5)]
        pairs[4][1].close()
        calls = []
        for index, expected in ((1, [1]), (3, [1, 3]), (0, [0, 1, 3])):
            threading.Timer(0.2, pairs[index][1].set_count, [1]).start()
            assert wait_for(pairs, len(expected), lambda: calls.append(1)) == expected
        assert 3 < len(calls) < 80  # It slept between them.
        threading.Timer(0.1, lambda: monkeypatch.setattr(stop_signals, "requested", 2)).start()
        with pytest.raises(stop_signals.StopRequested):
            wait_for(pairs, 4)
        assert not any(parent.words[channels.PARENT_ASLEEP] for parent, _ in pairs)
