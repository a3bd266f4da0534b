import gc
import itertools
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

from agents import stop_signals
from agents.distributed import group as groups_module
from agents.distributed.group import passing_signals
from agents.errors import LearnerLostError
from agents.stop_signals import StopRequested
from tests.distributed.exchanges import KINDS, results, together
from tests.distributed.meetings import check_lost, groups, num_descriptors, wait_for

BEAT, SILENCE, GRACE = 0.05, 1.0, 0.3


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(autouse=True)
def _short_times(monkeypatch):
    monkeypatch.setattr(groups_module, "BEAT_SECONDS", BEAT)
    monkeypatch.setattr(groups_module, "SILENCE_SECONDS", SILENCE)
    monkeypatch.setattr(groups_module, "GRACE_SECONDS", GRACE)


def learn(group, num_calls=None):
    """Exchanges arrays, and leaves as the training does; returns what it has raised."""
    error = None
    try:
        for _ in itertools.count() if num_calls is None else range(num_calls):
            total = group.exchange.sum([np.full(9, group.rank + 1, np.float32)])
            assert set(total) == {group.num_learners * (group.num_learners + 1) / 2}
    except BaseException as raised:
        error = raised
    group.leave(error)
    return error


def learn_all(made):
    return [lambda group=group: learn(group) for group in made]


def test_learners_exchange_arrays(kind):
    with groups(kind, 3) as made:
        assert [group.rank for group in made] == [0, 1, 2]
        assert [group.is_chief for group in made] == [True, False, False]
        assert results(*(lambda group=group: learn(group, 20) for group in made)) == [None] * 3


def test_a_group_of_one(kind):
    with groups(kind, 1) as (group,):
        assert learn(group, 3) is None


# How learners end as they should.


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_ending_is_quiet_in_every_order(kind, order):
    with groups(kind, 3) as made:
        results(*(lambda group=group: group.exchange.sum([np.ones(5)]) for group in made))
        for count, rank in enumerate(order, 1):
            made[rank].leave(None)
            there = [made[other] for other in order[count:]]
            # The chief hears of others, and others of the chief.
            informed = [group for group in there if 0 in (rank, group.rank)]
            assert wait_for(lambda: all(rank in group._left for group in informed))  # noqa: B023
            time.sleep(BEAT)
            for group in there:
                group.check()


def test_ends_at_any_times_are_no_losses(kind):
    """Whoever has made the last call leaves, whatever the others still do."""
    rng = random.Random(0)
    for _ in range(12):
        with groups(kind, 3) as made:

            def run(group, delay):
                error = None
                try:
                    for _ in range(3):
                        group.exchange.gather(np.zeros(70_000, np.uint8))
                        time.sleep(delay)
                except BaseException as raised:
                    error = raised
                group.leave(error)
                return error

            delays = [rng.choice([0, 0, 0.001, 0.03]) for _ in made]
            pairs = zip(made, delays, strict=True)
            assert results(*(lambda pair=pair: run(*pair) for pair in pairs)) == [None] * 3


def test_the_chief_may_end_before_others_have_its_last_arrays():
    """Learner 1 of a ring passes on what the chief does not need, once the chief has left."""
    with groups("ring", 4) as made:
        has_left, num_swaps = threading.Event(), itertools.count()
        swap = made[1].exchange._swap

        def swap_late(*arguments, **options):
            if next(num_swaps) == 4:
                assert has_left.wait(5)
                time.sleep(0.5)  # Others ask meanwhile whether somebody is lost.
            swap(*arguments, **options)

        made[1].exchange._swap = swap_late

        def lead():
            error = learn(made[0], 1)
            has_left.set()
            return error

        others = [lambda group=group: learn(group, 1) for group in made[1:]]
        assert results(lead, *others) == [None] * 4
        assert next(num_swaps) == 6


def test_a_chief_that_ends_early_is_missed(kind):
    """As one whose user leaves the loop over the scores."""
    with groups(kind, 3) as made:

        def lead():
            made[0].exchange.sum([np.full(9, 1, np.float32)])
            made[0].leave(GeneratorExit())

        _, *errors = together(lead, *learn_all(made[1:]))
        check_lost(errors, 0, "has stopped")


def test_a_learner_that_ends_early_is_missed(kind):
    with groups(kind, 3) as made:
        _, *errors = together(
            lambda: learn(made[2], 2), lambda: learn(made[0]), lambda: learn(made[1])
        )
        check_lost(errors, 2, "has stopped")


def test_who_waits_too_long_for_a_last_array_gives_up(monkeypatch):
    """The chief has ended, and nobody else could say who is lost."""
    with groups("ring", 3) as made:
        for group in made:
            group.exchange.num_calls = 5
        made[0].leave(None)
        assert wait_for(lambda: made[1]._done and made[2]._done)
        made[1].check()
        monkeypatch.setattr(groups_module, "SILENCE_SECONDS", 0.0)
        with pytest.raises(LearnerLostError, match=r"learner 0 \(the chief\) .* has stopped"):
            made[1].check()


# How learners fail.


@pytest.mark.timing
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_learner_that_fails_ends_all_others(kind, rank):
    with groups(kind, 3) as made:

        def fail():
            made[rank].leave(ValueError("no such level\nand more"))

        others = [group for group in made if group.rank != rank]
        start = time.monotonic()
        _, *errors = together(fail, *learn_all(others))
        assert time.monotonic() - start < 25
        check_lost(errors, rank, "failed: no such level")
        assert "more" not in str(errors[0])


@pytest.mark.timing
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_learner_that_dies_ends_all_others(kind, rank):
    """The system closes the connections of a process that is killed."""
    with groups(kind, 3) as made:

        def die():
            victim = made[rank]
            victim._is_closed = True  # Its thread says nothing more.
            victim._thread.join(5)
            victim._is_closed = False
            for connection in (*victim._meeting.connections.values(), *victim._ring):
                connection.socket.shutdown(2)

        others = [group for group in made if group.rank != rank]
        start = time.monotonic()
        _, *errors = together(die, *learn_all(others))
        assert time.monotonic() - start < 25
        check_lost(errors, rank, "closed its connection")


@pytest.mark.timing
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_learner_that_falls_silent_ends_all_others(kind, rank):
    """Its connections stay open, as where a process is stopped or a cable is pulled."""
    with groups(kind, 3) as made:
        for connection in made[rank]._meeting.connections.values():
            connection.send = lambda message: True  # On its way for ever.
        others = [group for group in made if group.rank != rank]
        start = time.monotonic()
        errors = together(*learn_all(others))
        assert SILENCE - BEAT < time.monotonic() - start < 25
        check_lost(errors, rank, f"has not answered for {SILENCE:g} s")


def test_learners_that_are_all_stopped_for_a_while_go_on():
    """As by a batch system: when the first one goes on, others have not said anything yet."""
    with groups("shared", 3) as made:
        goes_on = threading.Event()
        for group in made:
            readable = group._readable

            def wait(*arguments, readable=readable):
                goes_on.wait()
                return readable(*arguments)

            group._readable = wait
        time.sleep(1.2 * SILENCE)
        goes_on.set()
        time.sleep(4 * BEAT)
        for group in made:
            group.check()


def test_a_neighbor_in_the_ring_may_be_lost_although_it_is_alive():
    """Who can't reach it says so, and the chief tells the others."""
    with groups("ring", 4) as made:
        made[2]._ring[1].socket.shutdown(2)  # To learner 3; the chief hears them both.
        errors = together(*learn_all(made))
        assert all(isinstance(error, LearnerLostError) for error in errors)
        assert {error.rank for error in errors} <= {2, 3}


def test_a_learner_that_waits_elsewhere_hears_of_it_as_well(kind):
    with groups(kind, 3) as made:
        made[2].leave(ValueError("broken"))
        for group in made[:2]:
            assert wait_for(lambda group=group: group._error)
            with pytest.raises(LearnerLostError, match="learner 2 .* failed: broken"):
                group.check()


def test_learners_that_all_fail_at_once(kind):
    """As by a loss that is not a number: each has its own error."""
    with groups(kind, 3) as made:
        results(*(lambda group=group: group.leave(ValueError("nan")) for group in made))


@pytest.mark.parametrize("line", [b"no message\n", b'{"kind": "done"}\n', b'{"kind": "lost"}\n'])
def test_a_learner_that_says_something_else_is_lost(line):
    with groups("shared", 2) as made:
        made[1]._meeting.connections[0].socket.sendall(line)
        assert wait_for(lambda: made[0]._error)
        check_lost([made[0]._error], 1, "sent ")


# How a stop is requested.


@pytest.mark.parametrize(
    ("error", "signum"),
    [
        (StopRequested(signal.SIGTERM), signal.SIGTERM),
        (StopRequested(signal.SIGINT), signal.SIGINT),
        (StopRequested(signal.SIGHUP), signal.SIGHUP),
        (KeyboardInterrupt(), signal.SIGINT),
    ],
)
def test_a_chief_that_is_stopped_stops_all_others(kind, error, signum):
    with groups(kind, 3) as made:
        _, *errors = together(lambda: made[0].leave(error), *learn_all(made[1:]))
        for raised in errors:
            assert isinstance(raised, StopRequested) and raised.signum == signum


def test_a_learner_that_is_stopped_by_itself_is_lost(kind):
    with groups(kind, 2) as made:
        _, error = together(lambda: made[1].leave(KeyboardInterrupt()), lambda: learn(made[0]))
        check_lost([error], 1, "has stopped")


@pytest.mark.parametrize("signum", stop_signals.SIGNALS)
def test_signals_to_a_learner_reach_the_chief(signum, monkeypatch):
    asked = []
    handlers = {each: signal.getsignal(each) for each in stop_signals.SIGNALS}
    with groups("shared", 2) as made:
        # Learners have a process each; here the chief's would be this one.
        monkeypatch.setattr(made[1], "request_stop", asked.append)
        with passing_signals(made[1]):
            os.kill(os.getpid(), signum)
            assert wait_for(lambda: asked)
    assert asked == [signum]
    assert {each: signal.getsignal(each) for each in handlers} == handlers
    assert signal.set_wakeup_fd(-1) == -1


def test_other_signals_are_not_passed_on():
    with groups("shared", 2) as made:
        received, before = [], signal.getsignal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
        try:
            made[1].request_stop(signal.SIGUSR1)
            time.sleep(4 * BEAT)
            made[0].check()
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert not received


# How processes end whose main thread does not.


def test_a_main_thread_that_does_not_end_is_ended(kind):
    with groups(kind, 3) as made:
        stuck = [threading.Event() for _ in made]
        errors = []
        for group, event in zip(made, stuck, strict=True):
            group.on_stuck = lambda error, event=event: (errors.append(error), event.set())
        start = time.monotonic()
        made[2].leave(ValueError("broken"))
        made_it = [event.wait(5) for event in stuck[:2]]
        assert made_it == [True, True] and time.monotonic() - start >= GRACE
        check_lost(errors, 2, "failed: broken")


def test_a_main_thread_that_ends_is_not_ended(kind):
    with groups(kind, 2) as made:
        errors = []
        made[0].on_stuck = errors.append
        made[1].leave(ValueError("broken"))
        assert wait_for(lambda: made[0]._error)
        made[0].leave(made[0]._error)
        time.sleep(2 * GRACE)
        assert not errors


# What is left.


@pytest.mark.parametrize("ends", ["done", "failed", "lost", "before the start", "twice"])
def test_nothing_stays_behind(kind, ends):
    def count():
        gc.collect()  # Exceptions hold frames, which hold the memory.
        return num_descriptors()

    def train():
        with groups(kind, 3, starts=ends != "before the start") as (one, two, three):
            if ends == "failed":
                two.leave(ValueError("broken"))
                assert wait_for(lambda: one._error and three._error)
            elif ends == "lost":
                together(lambda: two.leave(ValueError("broken")), *learn_all([one, three]))
            elif ends == "twice":
                for group in (one, two, three, one, two):
                    group.leave(None)

    with groups(kind, 2):
        pass  # What the first one imports and opens.
    descriptors, threads = count(), threading.active_count()
    train()
    assert wait_for(lambda: threading.active_count() <= threads)
    assert count() == descriptors


@pytest.mark.timing
def test_leaving_takes_no_time(kind):
    """Also where others are not there any more, or do not answer."""
    with groups(kind, 3) as made:
        start = time.monotonic()
        for group in made:
            group.leave(None)
        assert time.monotonic() - start < 25
    with groups(kind, 3) as made:
        for connection in made[1]._meeting.connections.values():
            connection.send = lambda message: True
        made[1]._is_closed = True  # Its thread ends, and nobody reads there any more.
        start = time.monotonic()
        made[0].leave(None)
        assert time.monotonic() - start < 25
        made[1]._is_closed = False
