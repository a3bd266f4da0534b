import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from agents.distributed import shared_exchange
from agents.distributed.shared_exchange import SharedExchange, shared_bytes
from agents.shared_memory.shared_block import create_anonymous_file
from tests.distributed.exchanges import CalmWatch, connected_pair, exchanges, results, together

# Arguments: kind, rank, number of learners, descriptors. Prints a hash of all that it receives.
LEARNER = """
import hashlib, socket, sys

import numpy as np

from agents.distributed import shared_exchange
from agents.distributed.ring_exchange import RingExchange

class Watch:
    def check(self):
        pass

    def lost(self, rank, error):
        return error

shared_exchange.SLOT_BYTES = 1000
kind, (rank, num_learners, *descriptors) = sys.argv[1], map(int, sys.argv[2:])
if kind == "shared":
    exchange = shared_exchange.SharedExchange(descriptors[0], rank, num_learners, Watch())
else:
    sockets = [socket.socket(fileno=one) for one in descriptors]
    exchange = RingExchange(*sockets, rank, num_learners, Watch())
digest = hashlib.sha256()
rngs = [np.random.default_rng(one) for one in range(num_learners)]
for turn in range(80):
    size = turn % 7 * 101
    arrays = [rng.standard_normal(size).astype(np.float32) for rng in rngs]
    data = [array.view(np.uint8) for array in arrays]
    total = exchange.sum([arrays[rank]])
    np.testing.assert_allclose(total, np.sum(arrays, axis=0, dtype=np.float64), atol=1e-5)
    gathered = exchange.gather(data[rank])
    np.testing.assert_array_equal(gathered, np.stack(data))
    received = exchange.broadcast(data[rank])
    np.testing.assert_array_equal(received, data[0])
    for array in (total, gathered, received):
        digest.update(array.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.parametrize("kind", ["shared", "ring"])
def test_processes_receive_the_same(kind, monkeypatch):
    monkeypatch.setattr(shared_exchange, "SLOT_BYTES", 1000)
    num_learners = 3
    pairs = [connected_pair() for _ in range(num_learners)]
    memory = create_anonymous_file(shared_bytes(num_learners))
    processes = []
    try:
        for rank in range(num_learners):
            ring = [pairs[rank][0].fileno(), pairs[rank - 1][1].fileno()]
            descriptors = [memory] if kind == "shared" else ring
            arguments = map(str, [kind, rank, num_learners, *descriptors])
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", LEARNER, *arguments],
                    pass_fds=descriptors,
                    stdout=subprocess.PIPE,
                )
            )
        hashes = {process.communicate(timeout=60)[0] for process in processes}
    finally:
        os.close(memory)
        for one in [one for pair in pairs for one in pair]:
            one.close()
        for process in processes:
            process.kill()
            process.communicate()
    assert len(hashes) == 1 and len(hashes.pop().strip()) == 64
    assert not any(process.returncode for process in processes)


def test_nobody_overwrites_what_others_still_read(monkeypatch):
    """A quick learner waits before it writes to a slot for the second time."""
    monkeypatch.setattr(shared_exchange, "SLOT_BYTES", 64)
    watch = CalmWatch()
    with exchanges("shared", 2, watch) as (quick, slow):
        waits, may_read = threading.Event(), threading.Event()
        watch.check = waits.set
        read = slow._swap

        def swap(data):
            slots = read(data)
            may_read.wait(10)  # The others have all the time to go on.
            return slots

        slow._swap = swap

        def learn_quickly():
            return [quick.gather(np.full(8, turn, np.uint8)) for turn in range(6)]

        def learn_slowly():
            return [slow.gather(np.full(8, 10 + turn, np.uint8)) for turn in range(6)]

        def let_read():
            assert waits.wait(10)
            may_read.set()

        first, second, _ = results(learn_quickly, learn_slowly, let_read)
    expected = [[[turn] * 8, [10 + turn] * 8] for turn in range(6)]
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, expected)


def test_who_has_its_result_does_not_ask_the_watch():
    """What the watch says later is about what follows."""
    watch = CalmWatch()
    with exchanges("shared", 1, watch) as (exchange,):
        watch.error = ConnectionError("too late")
        assert exchange.sum([np.ones(3)]).tolist() == [1, 1, 1]


def test_closing_frees_memory_and_descriptors():
    def count():
        maps = Path("/proc/self/maps").read_text()
        return len(os.listdir("/proc/self/fd")), maps.count("memfd:agents")

    gc.collect()  # What is left by other tests.
    before, memory = count(), create_anonymous_file(shared_bytes(2))
    made = [SharedExchange(memory, rank, 2, CalmWatch()) for rank in range(2)]
    os.close(memory)
    results(*(lambda one=one: one.sum([np.ones(10)]) for one in made))
    for one in made:
        one.close()
        one.close()
    assert count() == before


def test_closing_ends_a_wait():
    watch = CalmWatch()
    with exchanges("shared", 2, watch) as (one, _):
        watch.check = one.close
        [outcome] = together(lambda: one.gather(np.zeros(1, np.uint8)))
    assert isinstance(outcome, ValueError)


def test_the_memory_is_what_was_promised():
    for num_learners in (1, 2, 5):
        memory = create_anonymous_file(shared_bytes(num_learners))
        exchange = SharedExchange(memory, 0, num_learners, CalmWatch())
        slots = exchange._slots
        assert slots.shape == (2, num_learners, shared_exchange.SLOT_BYTES)
        # Counters of different learners are in different cache lines.
        assert exchange._counters.strides == (64,) and len(exchange._counters) == num_learners
        os.close(memory)
