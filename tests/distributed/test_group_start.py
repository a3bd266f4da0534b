"""Groups until all are ready."""

import time

import pytest

from agents.distributed import group as groups_module
from agents.errors import LearnerLostError
from tests.distributed.exchanges import KINDS, results, together
from tests.distributed.meetings import check_lost, groups, listening

SILENCE = 1.0
READY = {"kind": "ready"}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(autouse=True)
def _short_times(monkeypatch):
    monkeypatch.setattr(groups_module, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(groups_module, "SILENCE_SECONDS", SILENCE)


@pytest.mark.timing
def test_who_fails_before_it_is_ready_ends_all_others_at_once(kind):
    """The chief waits for all of them at the same time."""
    with groups(kind, 3, starts=False, start_timeout=10) as made:

        def start(group):
            try:
                group.start()
            except LearnerLostError as error:
                group.leave(error)
                return error

        begin = time.monotonic()
        # Learner 1 still prepares.
        lead, *_ = together(
            lambda: start(made[0]), lambda: made[2].leave(ValueError("no memory")), lambda: None
        )
        assert time.monotonic() - begin < 25
        check_lost([lead, start(made[1])], 2, "failed: no memory")


@pytest.mark.timing
def test_who_dies_after_it_is_ready_ends_all_others_at_once():
    with groups("shared", 3, starts=False, start_timeout=10) as made:

        def die():
            connection = made[2]._meeting.connections[0]
            connection.send({"kind": "ready"})
            connection.socket.shutdown(2)

        begin = time.monotonic()
        error, _ = together(made[0].start, die)
        assert time.monotonic() - begin < 25
        check_lost([error], 2, "closed its connection")


def test_a_chief_that_fails_before_it_is_ready_ends_all_others(kind):
    with groups(kind, 3, starts=False) as made:
        *errors, _ = together(
            made[1].start, made[2].start, lambda: made[0].leave(ValueError("no such network"))
        )
        check_lost(errors, 0, "failed: no such network")


def test_who_does_not_get_ready_is_named(kind):
    with groups(kind, 3, starts=False, start_timeout=0.5) as made:
        error, _ = together(made[0].start, lambda: made[1]._meeting.connections[0].send(READY))
        check_lost([error], 2, "was not ready in time; see --start-timeout")


@pytest.mark.timing
def test_a_chief_that_does_not_get_ready_is_named():
    with groups("shared", 2, starts=False, start_timeout=0.3) as made:
        start = time.monotonic()
        [error] = together(made[1].start)
        # The chief may take as long to prepare, and then waits for others.
        assert 0.6 <= time.monotonic() - start < 25
        check_lost([error], 0, "was not ready in time; see --start-timeout")


@pytest.mark.timing
def test_who_does_not_join_the_ring_is_lost():
    with groups("ring", 3, starts=False) as made:

        def get_stuck():
            made[1]._meeting.connections[0].send(READY)
            made[1]._receive_one(0, time.monotonic() + 5)

        begin = time.monotonic()
        lead, last, _ = together(made[0].start, made[2].start, get_stuck)
        assert time.monotonic() - begin < 25
        check_lost([lead, last], 1, "")


def test_nobody_listens_once_all_have_met(kind):
    with groups(kind, 2, starts=False) as made:
        ports = [group._meeting.listener.getsockname()[1] for group in made]
        assert [listening(port) for port in ports] == [{"127.0.0.1"}] * 2
        results(*(group.start for group in made))
        assert [listening(port) for port in ports] == [set()] * 2
