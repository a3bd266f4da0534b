import select
import socket
import threading
import time

import numpy as np
import pytest

from agents.distributed import ring_exchange
from agents.distributed.ring_exchange import RingExchange
from agents.errors import LearnerLostError
from tests.distributed.exchanges import CalmWatch, connected_pair, exchanges, results, together


@pytest.mark.parametrize(
    "calls",
    [
        [("gather", 8), ("gather", 4)],
        [("gather", 4), ("gather", 8)],
        [("sum", 100), ("gather", 8)],
        [("gather", 0), ("gather", 8)],
    ],
)
def test_learners_out_of_step_are_found_out(calls):
    """Also where a neighbor sends less than is expected, and then waits."""
    with exchanges("ring", 2) as made:

        def call(exchange, name, size):
            data = np.zeros(size, np.uint8)
            return exchange.gather(data) if name == "gather" else exchange.sum([data.view("f4")])

        outcomes = together(
            *(
                lambda one=one, what=what: call(one, *what)
                for one, what in zip(made, calls, strict=True)
            )
        )
    assert all(isinstance(outcome, RuntimeError) for outcome in outcomes)
    assert "Learner 1 is not at the same reduction" in str(outcomes[0])
    assert "Learner 0 is not at the same reduction" in str(outcomes[1])


def test_a_learner_that_has_left_out_a_call_is_found_out():
    with exchanges("ring", 2) as (one, other):
        one.broadcast(np.zeros(0, np.uint8))  # The chief waits for nobody.
        data = np.zeros(4, np.uint8)
        _, outcome = together(lambda: one.broadcast(data), lambda: other.broadcast(data))
    assert isinstance(outcome, RuntimeError)
    assert "expected call and bytes (1, 4), got (1, 0)" in str(outcome)


@pytest.mark.parametrize("ends", ["closed", "reset"])
@pytest.mark.parametrize("lost", [1, 2])
def test_who_loses_a_neighbor_raises_what_the_watch_says(lost, ends):
    """Learner 0 of three sends to 1 and receives from 2."""
    with exchanges("ring", 3) as made:
        if ends == "reset":
            for one in (made[lost]._following, made[lost]._previous):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.close()
        made[lost].close()
        # More than sockets hold, so that it can't be sent to nobody.
        [outcome] = together(lambda: made[0].sum([np.zeros(6_000_000, np.float32)]))
    assert isinstance(outcome, LearnerLostError)
    assert outcome.rank == lost and outcome.cause


def test_a_neighbor_may_close_once_its_last_bytes_are_sent():
    """A slower one still reads them, however many."""
    data = np.random.default_rng(0).integers(0, 256, 200_000, dtype=np.uint8)
    with exchanges("ring", 3) as made:
        made[0].broadcast(data)
        made[0].close()
        for received in results(*(lambda one=one: one.broadcast(data * 0) for one in made[1:])):
            np.testing.assert_array_equal(received, data)


def test_a_learner_that_closes_does_not_end_the_last_call_of_others():
    """Whoever has its own result leaves at once; the others get theirs all the same."""
    size = 300_001

    def learn(exchange):
        total = exchange.sum([np.full(size, 2, np.float32)])
        exchange.close()
        return total

    for _ in range(20):
        with exchanges("ring", 4) as made:
            for total in results(*(lambda one=one: learn(one) for one in made)):
                np.testing.assert_array_equal(total, np.full(size, 8, np.float32))


def test_a_learner_may_be_late_for_longer_than_its_link_may_be_dead(monkeypatch):
    """As a chief that evaluates, while others wait for room in its receive buffer."""
    options = {socket.TCP_USER_TIMEOUT: 300, socket.TCP_KEEPIDLE: 1, socket.TCP_KEEPINTVL: 1}
    with exchanges("ring", 2, make_pair=lambda: with_options(connected_pair(), options)) as made:
        array = np.ones(6_000_000, np.float32)

        def learn_late():
            time.sleep(3)  # Several of the probes that a full buffer is asked with.
            return made[0].sum([array])

        for total in results(learn_late, lambda: made[1].sum([array])):
            np.testing.assert_array_equal(total, 2 * array)


def with_options(pair, options):
    for one in pair:
        for option, value in options.items():
            one.setsockopt(socket.IPPROTO_TCP, option, value)
    return pair


def test_waits_with_descriptors_that_select_does_not_take():
    """A chief with many worker processes has more than 1024."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = 2000
    if hard != resource.RLIM_INFINITY and hard <= number:
        pytest.skip("the system allows for too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number + 100), hard))
    try:
        with exchanges("ring", 2, make_pair=lambda: high_descriptors(connected_pair())) as made:
            assert made[0]._previous.fileno() >= number
            with pytest.raises(ValueError):
                select.select([made[0]._previous], [], [], 0)
            data = np.ones(3, np.uint8)
            waited = threading.Event()
            made[0]._watch.check = waited.set

            def learn_late():
                waited.wait(5)
                return made[1].gather(data)

            for gathered in results(lambda: made[0].gather(data), learn_late):
                assert gathered.tolist() == [[1, 1, 1]] * 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def high_descriptors(pair):
    import fcntl

    moved = [socket.socket(fileno=fcntl.fcntl(one.fileno(), fcntl.F_DUPFD, 2000)) for one in pair]
    for one in pair:
        one.close()
    return moved


def test_close_ends_a_wait(monkeypatch):
    monkeypatch.setattr(ring_exchange, "_POLL_SECONDS", 0.02)
    watch = CalmWatch()
    with exchanges("ring", 2, watch) as made:
        waits = threading.Event()
        watch.check = waits.set

        def close():
            waits.wait(5)
            made[0].close()

        outcome, _ = together(lambda: made[0].gather(np.zeros(3, np.uint8)), close)
    assert isinstance(outcome, (LearnerLostError, OSError, ValueError))


def test_sends_no_more_than_the_ring_has_to():
    """2 (n - 1) / n of an array, whatever the number of learners."""
    sent, array = [], np.ones(1000, np.float32)

    class Counting(RingExchange):
        def _send(self, parts):
            count = super()._send(parts)
            sent.append(count)
            return count

    for num_learners in (2, 4):
        sent.clear()
        with exchanges("ring", num_learners) as made:
            for one in made:
                one.__class__ = Counting
            results(*(lambda one=one: one.sum([array]) for one in made))
        headers = num_learners * 2 * (num_learners - 1) * ring_exchange._HEADER.size
        assert sum(sent) - headers == 2 * (num_learners - 1) * array.nbytes
