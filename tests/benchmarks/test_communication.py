import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.communication import (
    Network,
    Traffic,
    communication_seconds,
    communication_share,
    fit,
    learners_at_share,
    messages,
)
from tests.distributed.exchanges import connected_pair, exchanges, results


class CountingSocket:
    """A socket that counts the bytes that it sends."""

    def __init__(self, connected):
        self._socket, self.num_bytes = connected, 0

    def __getattr__(self, name):
        return getattr(self._socket, name)

    def sendmsg(self, buffers):
        count = self._socket.sendmsg(buffers)
        self.num_bytes += count
        return count


def bytes_sent(num_learners, call):
    """Calls `call(exchange)` on all learners of a ring; returns the bytes that the first has sent."""
    sockets = []

    def make_pair():
        near, far = connected_pair()
        sockets.append(CountingSocket(near))
        return sockets[-1], far

    with exchanges("ring", num_learners, make_pair=make_pair) as made:
        results(*[functools.partial(call, each) for each in made])
    return sockets[0].num_bytes


HEADER_BYTES = 16  # Of a message.


@pytest.mark.parametrize("num_learners", [2, 3, 4, 8])
def test_the_model_counts_the_bytes_of_the_ring(num_learners):
    array = np.ones(num_learners * 1000, np.float32)  # Divisible by the number of learners.
    sent = bytes_sent(num_learners, lambda exchange: exchange.sum([array]))
    number, num_bytes = messages(Traffic(sums=1, summed=array.nbytes), num_learners)
    assert sent == num_bytes + number * HEADER_BYTES
    data = np.ones(1000, np.uint8)
    sent = bytes_sent(num_learners, lambda exchange: exchange.gather(data))
    traffic = Traffic(sums=0, summed=0, gathers=1, gathered=data.nbytes)
    number, num_bytes = messages(traffic, num_learners)
    assert sent == num_bytes + number * HEADER_BYTES


TRAFFIC = Traffic(sums=300, summed=1e7, gathers=2, gathered=1e4)


def test_communication_takes_latencies_and_bytes():
    network = Network(latency=1e-3, seconds_per_byte=1e-8)
    # 2 x 3 messages of each sum and 3 of each gather; 6 / 4 of the bytes and 3 times those gathered.
    expected = (6 * 300 + 3 * 2) * 1e-3 + (1.5e7 + 3e4) * 1e-8
    assert communication_seconds(TRAFFIC, 4, network) == pytest.approx(expected)
    assert communication_share(expected, TRAFFIC, 4, network) == pytest.approx(0.5)
    assert communication_seconds(TRAFFIC, 1, network) == 0


def test_a_slower_network_adds_its_delay_and_its_time_for_a_byte():
    slower = Network(1e-4, 1e-9).behind(delay=1e-3, rate=1e6)
    assert slower.latency == pytest.approx(1.1e-3)
    assert slower.seconds_per_byte == pytest.approx(1.001e-6)


def test_the_number_of_learners_at_a_share_is_the_first_one():
    network, computing = Network(1e-4, 1e-9), 3.0
    number = learners_at_share(computing, TRAFFIC, network, 0.1)
    assert communication_share(computing, TRAFFIC, number, network) >= 0.1
    assert communication_share(computing, TRAFFIC, number - 1, network) < 0.1
    assert learners_at_share(1e6, TRAFFIC, network, 0.1) is None
    assert learners_at_share(1e-6, TRAFFIC, network, 0.1) == 2


@given(
    latency=st.floats(1e-6, 1e-2),
    seconds_per_byte=st.floats(1e-11, 1e-7),
    sizes=st.lists(st.integers(100, 10**7), min_size=2, unique=True),
)
def test_the_fit_finds_the_constants_of_a_ring(latency, seconds_per_byte, sizes):
    network = Network(latency, seconds_per_byte)
    times = {size: communication_seconds(Traffic(1, size), 2, network) for size in sizes}
    found = fit(times)
    for size, seconds in times.items():
        traffic = Traffic(1, size)
        assert communication_seconds(traffic, 2, found) == pytest.approx(seconds, rel=1e-6)
