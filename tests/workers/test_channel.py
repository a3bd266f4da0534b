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
    """Both kinds of processors; on those whose writes have no order, rings carry the counters."""
    monkeypatch.setattr(channels, "ORDERED_WRITES", request.param == "ordered")
    return request.param


def test_a_counter_without_order_counts_as_far_as_it_was_received(monkeypatch):
    monkeypatch.setattr(channels, "ORDERED_WRITES", False)
    with pair() as (parent, worker):
        worker.words[channels.WORKER_COUNT] = 5  # May be visible before what was written before.
        assert not parent.has_count(1)
        for count in (1, 2):
            worker.set_count(count)
        assert parent.has_count(2) and not parent.has_count(3)
        worker._doorbell.send(b"\7\0\0")  # A part of a ring.
        assert not parent.has_count(3)
        worker._doorbell.send(b"\0\0\0\0\0")
        assert parent.has_count(7)


def after(seconds):
    """A deadline in so many seconds."""
    return time.monotonic() + seconds


@contextlib.contextmanager
def pair(**kwargs):
    """Yields both sides, in this process."""
    descriptor = create_anonymous_file(channels.SHARED_BYTES)
    doorbells, messages = socket.socketpair(), socket.socketpair()
    parent, worker = (
        Channel(
            map_words(descriptor),
            doorbell,
            message,
            parent=is_parent,
            **(kwargs if is_parent else {}),
        )
        for doorbell, message, is_parent in zip(doorbells, messages, (True, False), strict=True)
    )
    os.close(descriptor)
    try:
        yield parent, worker
    finally:
        parent.close()
        worker.close()


@contextlib.contextmanager
def running(function):
    """Runs a function in a thread; its exception is raised here at the end."""
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
                worker.wait_count(turn, deadline=after(10))
                if turn % 7 == 0:  # Until the other side sleeps.
                    time.sleep(2 * channels.SPIN_SECONDS)
                worker.words[channels.STATUS] = turn
                worker.set_count(turn)
                if turn % 3 == 0:
                    worker.send(turn, b"x" * turn, deadline=after(10))

        with running(serve):
            for turn in range(1, turns + 1):
                parent.set_count(turn)
                parent.wait_count(turn, deadline=after(10))
                assert parent.words[channels.STATUS] == turn
                if turn % 3 == 0:
                    assert parent.receive(turn, deadline=after(10)) == (b"x" * turn, [])


ROOM = channels.SHARED_BYTES - channels.WORDS_BYTES


@pytest.mark.parametrize("length", [0, 1, ROOM - 1, ROOM, ROOM + 1, 10**6])
def test_replies_of_any_length_arrive_with_their_status(length):
    data = os.urandom(length)
    with pair() as (parent, worker), running(lambda: worker.reply(1, 2, data)):
        assert parent.wait_reply(1, deadline=after(10)) == (2, data)


def test_waiting_for_a_count_times_out_until_it_is_set_or_exceeded():
    with pair() as (parent, worker):
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            parent.wait_count(1, deadline=after(0.1))
        assert time.monotonic() - start >= 0.1
        worker.set_count(2)
        parent.wait_count(1, deadline=after(0.1))


@pytest.mark.timing
def test_a_lost_ring_delays_only_briefly(monkeypatch):
    monkeypatch.setattr(channels, "ORDERED_WRITES", True)  # Otherwise every turn rings.
    with pair() as (parent, worker):

        def count_without_ringing():
            time.sleep(0.1)
            worker.words[channels.WORKER_COUNT] = 1

        with running(count_without_ringing):
            start = time.monotonic()
            parent.wait_count(1, deadline=after(600))
            assert time.monotonic() - start < 60


@pytest.mark.timing
def test_a_ring_wakes_up_a_sleeper_immediately(monkeypatch):
    monkeypatch.setattr(channels, "SLEEP_SECONDS", 600)
    with pair() as (parent, worker):

        def ring():
            time.sleep(0.1)
            worker.set_count(1)

        with running(ring):
            start = time.monotonic()
            parent.wait_count(1, deadline=after(600))
            assert time.monotonic() - start < 60


@pytest.mark.timing
def test_a_closed_channel_is_noticed_when_waiting_receiving_and_sending():
    with pair() as (parent, worker):
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


def test_a_closed_channel_is_noticed_while_a_copy_of_its_socket_is_open():
    with pair() as (parent, worker):
        copies = [
            socket.socket(fileno=os.dup(end.fileno()))
            for end in (worker._doorbell, worker._messages)
        ]
        worker.close()
        with pytest.raises(ChannelClosed):
            parent.wait_count(1, deadline=after(5))
        with pytest.raises(ChannelClosed):
            parent.receive(1, deadline=after(5))
        for copy in copies:
            copy.close()


def test_an_exited_process_is_noticed_while_its_sockets_are_open():
    with pair(other_exited=lambda: True) as (parent, _):
        with pytest.raises(ChannelClosed):
            parent.wait_count(1, deadline=after(600))


def test_a_reply_sent_before_closing_is_received():
    with pair(other_exited=lambda: True) as (parent, worker):
        worker.set_count(1)
        worker.send(1, b"last words", deadline=after(1))
        worker.close()
        parent.wait_count(1, deadline=after(5))
        assert parent.receive(1, deadline=after(5))[0] == b"last words"


def test_messages_of_earlier_turns_are_discarded():
    with pair() as (parent, worker):
        for turn in range(1, 5):
            worker.send(turn, f"reply {turn}".encode(), deadline=after(1))
        assert parent.receive(3, deadline=after(1))[0] == b"reply 3"
        assert parent.receive(4, deadline=after(1))[0] == b"reply 4"
        with pytest.raises(TimeoutError):
            parent.receive(5, deadline=after(0.05))


def test_a_message_received_in_pieces_survives_timeouts():
    with pair() as (parent, worker):
        whole = channels._HEADER.pack(1, 1000) + bytes(random.Random(0).randbytes(1000))
        cuts = [0, 5, 16, 17, 900, len(whole)]
        for start, stop in zip(cuts, cuts[1:-1], strict=False):
            worker._messages.sendall(whole[start:stop])
            with pytest.raises(TimeoutError):
                parent.receive(1, deadline=after(0.02))
        worker._messages.sendall(whole[cuts[-2] :])
        worker.send(2, b"next", deadline=after(1))
        assert parent.receive(1, deadline=after(1))[0] == whole[16:]
        assert parent.receive(2, deadline=after(1))[0] == b"next"


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_messages_of_any_size_in_both_directions(size):
    data = random.Random(size).randbytes(size)
    with pair() as (parent, worker), running(lambda: worker.send(7, data, deadline=after(10))):
        assert parent.receive(7, deadline=after(10))[0] == data
        with running(lambda: parent.send(8, data, deadline=after(10))):
            assert worker.receive(8, deadline=after(10))[0] == data


def test_sending_times_out_if_the_other_side_does_not_read():
    with pair() as (parent, _):
        with pytest.raises(TimeoutError):
            parent.send(1, bytes(5_000_000), deadline=after(0.05))


def test_descriptors_arrive_with_their_message_and_are_closed_with_a_discarded_one():
    with pair() as (parent, worker):
        reading, writing = os.pipe()
        parent.send(1, b"", after(1), (reading,))
        parent.send(2, b"take it", after(1), (reading,))
        os.close(reading)
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
        data, (descriptor,) = worker.receive(2, deadline=after(1))
        assert before is None or len(os.listdir("/proc/self/fd")) == before + 1
        os.write(writing, b"hello")
        assert (data, os.read(descriptor, 5)) == (b"take it", b"hello")
        os.close(writing)
        os.close(descriptor)


# Several channels.


@contextlib.contextmanager
def pairs(count):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(pair()) for _ in range(count)]


def wait_for(channels, count, while_waiting=lambda: None):
    """Waits until so many of the workers have counted to 1; returns which."""
    parents = [parent for parent, _ in channels]
    counted = []

    def is_enough():
        counted[:] = [index for index, parent in enumerate(parents) if parent.has_count(1)]
        return len(counted) >= count

    wait_until(is_enough, parents, while_waiting)
    return counted


def test_waits_for_the_first_of_several_workers():
    with pairs(4) as channels:
        for index, expected in ((1, [1]), (3, [1, 3]), (0, [0, 1, 3])):
            threading.Timer(0.05, channels[index][1].set_count, [1]).start()
            assert wait_for(channels, len(expected)) == expected
        assert not any(parent.words[index] for parent, _ in channels for index in (2, 3))


def test_a_side_that_is_gone_does_not_end_the_wait_for_others_and_costs_no_time():
    with pairs(2) as channels:
        calls = []
        channels[0][1].close()
        threading.Timer(0.3, channels[1][1].set_count, [1]).start()
        assert wait_for(channels, 1, lambda: calls.append(1)) == [1]
        assert 3 < len(calls) < 40  # It slept between them.


def test_a_stop_ends_the_wait(monkeypatch):
    with pairs(2) as channels:
        threading.Timer(0.1, lambda: monkeypatch.setattr(stop_signals, "requested", 2)).start()
        with pytest.raises(stop_signals.StopRequested):
            wait_for(channels, 1)
        assert not any(parent.words[2] for parent, _ in channels)
