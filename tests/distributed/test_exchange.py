"""What all exchanges promise, in shared memory and in a ring."""

import threading

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from agents.distributed import shared_exchange
from agents.distributed.exchange import join_flat
from agents.errors import LearnerLostError
from tests.distributed.exchanges import KINDS, CalmWatch, exchanges, results, together

SIZES = strategies.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 40])
CALLS = strategies.one_of(
    strategies.tuples(
        strategies.just("sum"),
        strategies.lists(SIZES, min_size=1, max_size=3),
        strategies.sampled_from(["float32", "float64"]),
    ),
    strategies.tuples(strategies.sampled_from(["gather", "broadcast"]), SIZES),
)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(autouse=True)
def _small_slots(monkeypatch):
    """Slots that are smaller than some arrays, and no multiple of a float64."""
    monkeypatch.setattr(shared_exchange, "SLOT_BYTES", 60)


def arguments(call, rng):
    """What a learner gives in a call."""
    if call[0] == "sum":
        # Numbers of all magnitudes, so that another order of summands shows.
        return [
            (rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)).astype(call[2])
            for size in call[1]
        ]
    return rng.integers(0, 256, call[1], dtype=np.uint8)


def expected(call, given):
    """What all learners receive, by numpy, from what each gives."""
    if call[0] == "sum":
        return np.sum([np.concatenate(arrays).astype(np.float64) for arrays in given], axis=0)
    return np.stack(given) if call[0] == "gather" else given[0]


def check_calls(kind, num_learners, calls, seed):
    """Lets learners make calls one after another, and compares what they receive."""
    rngs = [np.random.default_rng([seed, rank]) for rank in range(num_learners)]
    given = [[arguments(call, rng) for call in calls] for rng in rngs]
    before = [[np.copy(join(argument)) for argument in one] for one in given]

    def learn(exchange, own):
        return [
            getattr(exchange, call[0])(argument) for call, argument in zip(calls, own, strict=True)
        ]

    with exchanges(kind, num_learners) as made:
        received = results(
            *(
                lambda one=one, own=own: learn(one, own)
                for one, own in zip(made, given, strict=True)
            )
        )
    for index, call in enumerate(calls):
        oracle = expected(call, [own[index] for own in given])
        first = received[0][index]
        assert first.dtype == (call[2] if call[0] == "sum" else np.uint8)
        assert first.shape == oracle.shape
        if call[0] == "sum":
            magnitude = np.sum([np.abs(join(own[index])) for own in given], axis=0, dtype=float)
            assert np.all(np.abs(first - oracle) <= 4 * np.finfo(call[2]).eps * magnitude)
        else:
            np.testing.assert_array_equal(first, oracle)
        for rank in range(num_learners):
            assert received[rank][index].tobytes() == first.tobytes()
            assert join(given[rank][index]).tobytes() == before[rank][index].tobytes()


def join(argument):
    return np.concatenate(argument) if isinstance(argument, list) else argument


@hypothesis.settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(
    num_learners=strategies.integers(1, 5),
    calls=strategies.lists(CALLS, min_size=1, max_size=6),
    seed=strategies.integers(0, 2**32 - 1),
)
def test_all_learners_receive_the_same(kind, num_learners, calls, seed):
    check_calls(kind, num_learners, calls, seed)


def test_long_sequences_of_calls(kind):
    rng = np.random.default_rng(0)
    sizes = [0, 1, 2, 3, 7, 30]
    calls = [
        [
            ("sum", list(rng.choice(sizes, 2)), "float32"),
            ("gather", int(rng.choice(sizes))),
            ("broadcast", int(rng.choice(sizes))),
        ][rng.integers(3)]
        for _ in range(300)
    ]
    check_calls(kind, 3, calls, seed=0)


def test_arrays_larger_than_what_sockets_and_slots_hold(kind, monkeypatch):
    monkeypatch.setattr(shared_exchange, "SLOT_BYTES", 1 << 22)
    calls = [("sum", [1_500_001], "float32"), ("gather", 5_000_001), ("broadcast", 5_000_001)]
    check_calls(kind, 3, calls, seed=0)


def test_arrays_of_any_shape_and_order_are_summed(kind):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([5, 3]).T, np.float64(2.5).reshape(()), np.zeros([0, 4])]
    with exchanges(kind, 2) as (one, other):
        received = results(lambda: one.sum(arrays), lambda: other.sum(arrays))
    for flat in received:
        np.testing.assert_array_equal(flat, 2 * join_flat(arrays))


def test_readonly_arrays_are_taken(kind):
    data = np.frombuffer(b"as the graph gives them", np.uint8)
    with exchanges(kind, 2) as (one, other):
        for received in results(lambda: one.gather(data), lambda: other.gather(data)):
            assert received.tobytes() == 2 * data.tobytes()
        for received in results(lambda: one.broadcast(data), lambda: other.broadcast(data)):
            assert received.tobytes() == data.tobytes()


@pytest.mark.parametrize("late", [0, 1, 2])
def test_others_wait_for_a_late_learner(kind, late):
    watches = CalmWatch()
    with exchanges(kind, 3, watches) as made:

        def learn(rank):
            if rank == late:
                waited.wait(10)
            return made[rank].sum([np.full(5, rank, np.float32)])

        waited = threading.Event()
        # They have waited for a while once they ask whether the late one is still there.
        watches.check = lambda: waited.set()
        for received in results(*(lambda rank=rank: learn(rank) for rank in range(3))):
            np.testing.assert_array_equal(received, np.full(5, 3, np.float32))
        assert waited.is_set()


@pytest.mark.parametrize("call", ["sum", "gather", "broadcast"])
def test_who_waits_raises_what_the_watch_says(kind, call):
    watch = CalmWatch()
    with exchanges(kind, 3, watch) as made:
        watch.error = LearnerLostError(2, "elsewhere", "failed")
        data = np.zeros(100, np.uint8)
        given = [data.view(np.float32)] if call == "sum" else data
        # Learner 1 waits in each of the calls, and in the ring for no neighbor that is lost.
        [outcome] = together(lambda: getattr(made[1], call)(given))
        assert outcome is watch.error


def test_received_arrays_belong_to_the_learner(kind):
    """What a learner does with them shows neither in later results nor at the others."""
    with exchanges(kind, 2) as made:

        def learn(exchange):
            received = []
            for number in range(4):
                data = np.full(8, number, np.uint8)
                for array in (exchange.gather(data), exchange.broadcast(data)):
                    received.append(int(array.max()))
                    array[...] = 255
                array = exchange.sum([data.astype(np.float32)])
                received.append(float(array.max()))
                array[...] = 255
            return received

        both = results(*(lambda one=one: learn(one) for one in made))
    assert both == [[n for number in range(4) for n in (number, number, 2 * number)]] * 2
