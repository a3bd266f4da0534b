"""The exchange in shared memory, of learners in threads and in processes."""

import functools
import os
import threading
import time

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from agents.distributed import shared_exchange
from agents.distributed.shared_exchange import EndedLearner, SharedExchange, shared_bytes
from agents.errors import LearnerLostError
from agents.workers.shared_block import create_anonymous_file

SIZES = strategies.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 40])
CALLS = strategies.one_of(
    strategies.tuples(
        strategies.just("sum"), SIZES, strategies.sampled_from(["float32", "float64"])
    ),
    strategies.tuples(strategies.just("gather"), SIZES),
)


@pytest.fixture(autouse=True)
def _small_slots(monkeypatch):
    """Slots that are smaller than some arrays, and no multiple of a float64."""
    monkeypatch.setattr(shared_exchange, "SLOT_BYTES", 60)


def together(*functions):
    """Calls functions at the same time, each in a thread; returns their results or exceptions."""
    outcomes = [TimeoutError("is still running")] * len(functions)

    def run(index, function):
        try:
            outcomes[index] = function()
        except BaseException as error:
            outcomes[index] = error

    threads = [
        threading.Thread(target=run, args=item, daemon=True) for item in enumerate(functions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return outcomes


def exchanges(num_learners):
    """Returns the exchanges of learners in this process by rank, and the note of an ended one."""
    memory = create_anonymous_file(shared_bytes(num_learners))
    made = [SharedExchange(memory, rank, num_learners) for rank in range(num_learners)]
    ended = EndedLearner(memory)
    os.close(memory)
    return made, ended


def arguments(call, rng):
    """What a learner gives in a call."""
    if call[0] == "sum":
        # Numbers of all magnitudes, so that another order of summands shows.
        magnitudes = 10.0 ** rng.integers(-3, 4, call[1])
        return (rng.standard_normal(call[1]) * magnitudes).astype(call[2])
    data = rng.integers(0, 256, call[1], dtype=np.uint8)
    data.setflags(write=False)  # As the graph gives them.
    return data


def check_calls(num_learners, calls, seed):
    """Lets learners make calls one after another, and compares what they receive."""
    rngs = [np.random.default_rng([seed, rank]) for rank in range(num_learners)]
    given = [[arguments(call, rng) for call in calls] for rng in rngs]
    before = [[np.copy(array) for array in own] for own in given]

    def learn(exchange, own):
        pairs = zip(calls, own, strict=True)
        return [getattr(exchange, call[0])(array) for call, array in pairs]

    pairs = zip(exchanges(num_learners)[0], given, strict=True)
    received = together(*(functools.partial(learn, *pair) for pair in pairs))
    for index, call in enumerate(calls):
        own = [array[index] for array in given]
        first = received[0][index]
        if call[0] == "sum":
            oracle = np.sum(own, axis=0, dtype=np.float64)
            magnitude = np.sum(np.abs(own), axis=0, dtype=np.float64)
            assert np.all(np.abs(first - oracle) <= 4 * np.finfo(call[2]).eps * magnitude)
            assert first.dtype == call[2]
        else:
            np.testing.assert_array_equal(first, np.stack(own))
        for rank in range(num_learners):
            assert received[rank][index].tobytes() == first.tobytes()
            assert given[rank][index].tobytes() == before[rank][index].tobytes()


@hypothesis.settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(
    num_learners=strategies.integers(1, 5),
    calls=strategies.lists(CALLS, min_size=1, max_size=6),
    seed=strategies.integers(0, 2**32 - 1),
)
def test_all_learners_receive_the_same(num_learners, calls, seed):
    check_calls(num_learners, calls, seed)


def test_long_sequences_of_calls_and_arrays_of_several_slots(monkeypatch):
    rng = np.random.default_rng(0)
    kinds = [("sum", 30, "float32"), ("gather", 7), ("sum", 0, "float64")]
    check_calls(3, [kinds[index] for index in rng.integers(0, 3, 300)], seed=0)
    monkeypatch.setattr(shared_exchange, "SLOT_BYTES", 1 << 22)
    check_calls(3, [("sum", 1_500_001, "float32"), ("gather", 5_000_001)], seed=0)


def test_received_arrays_belong_to_the_learner():
    """What a learner does with them shows neither in later results nor at the others."""

    def learn(exchange):
        received = []
        for number in range(4):
            data = np.full(8, number, np.uint8)
            for call in (exchange.gather, exchange.sum):
                array = call(data.astype(np.float32) if call == exchange.sum else data)
                received.append(int(array.max()))
                array[...] = 255
        return received

    made, _ = exchanges(2)
    both = together(*(functools.partial(learn, one) for one in made))
    assert both == [[n for number in range(4) for n in (number, 2 * number)]] * 2


def test_quick_learners_wait_for_slow_ones():
    """A slot is not written again while a slow learner may still read it."""

    def learn(exchange, seconds):
        received = []
        for number in range(6):
            time.sleep(seconds)
            received.append(int(exchange.gather(np.full(8, number, np.uint8)).sum()))
        return received

    made, _ = exchanges(2)
    both = together(lambda: learn(made[0], 0.0), lambda: learn(made[1], 0.02))
    assert both == [[16 * number for number in range(6)]] * 2


@pytest.mark.parametrize("call", ["sum", "gather"])
def test_waiting_ends_when_a_learner_has_ended(call):
    made, ended = exchanges(3)
    ended.note(2)
    ended.note(0)  # It follows from the first.
    data = np.zeros(100, np.float32 if call == "sum" else np.uint8)
    [outcome] = together(lambda: getattr(made[1], call)(data))
    assert isinstance(outcome, LearnerLostError) and outcome.rank == 2


def test_what_a_learner_gave_before_it_ended_is_received():
    made, ended = exchanges(2)
    together(lambda: made[0].gather(np.ones(3, np.uint8)), lambda: ended.note(0))
    # Both have ended waiting: the first has written, and does not wait any more.
    assert made[1].gather(np.ones(3, np.uint8)).sum() == 6
