"""Learners that start although some are missing."""

import pytest

from agents.distributed import rendezvous
from agents.distributed.connection import connect
from agents.errors import UsageError
from tests.distributed.exchanges import results, together
from tests.distributed.meetings import KEY, check_meetings, config, hello_of, leaving, places


@pytest.mark.parametrize(
    ("come", "started"),
    [
        ([1, 2, 3, 4], [1, 2, 3]),  # 5 learners do not divide 12 environments; 4 do.
        ([2, 4], [2, 4]),
        ([4], [4]),
        ([], []),
    ],
)
def test_starts_with_fewer_if_they_can_share_the_work(come, started):
    chief, *others = places(6, minimum=1)
    with leaving() as meet:
        outcomes = together(
            lambda: meet(chief, config(start_timeout=0.7), 0),
            *(lambda rank=rank: meet(others[rank - 1], config(), rank) for rank in come),
        )
        met = {rank: outcome for rank, outcome in zip(come, outcomes[1:], strict=True)}
        check_meetings([outcomes[0], *(met.pop(rank) for rank in started)])
        assert [member.process for member in outcomes[0].members] == [0, *started]
        for rank, outcome in met.items():
            assert isinstance(outcome, UsageError)
            assert f"refuses learner {rank}: the others can't share the work" in str(outcome)


def test_minibatches_have_to_be_divided_as_well():
    settings = {"num_envs": 12, "minibatch_size": 16}  # Among 1, 2 or 4.
    chief, *others = places(4, minimum=1)
    with leaving() as meet:
        outcomes = together(
            lambda: meet(chief, config(start_timeout=0.7, **settings), 0),
            *(lambda place=place: meet(place, config(**settings), 0) for place in others[:2]),
        )
        assert len(outcomes[0].members) == 2


def test_does_not_start_with_fewer_than_the_minimum():
    chief, place, *_ = places(6, minimum=3)
    outcome, _ = together(
        lambda: rendezvous.meet(chief, config(start_timeout=0.5), 0),
        lambda: rendezvous.meet(place, config(), 0),
    )
    assert isinstance(outcome, UsageError) and "(2 of 6 are there)" in str(outcome)


def test_a_learner_that_has_ended_is_not_counted():
    chief, place, _ = places(3, minimum=1)
    with leaving() as meet:
        meeting, _ = results(
            lambda: meet(chief, config(start_timeout=0.6), 0),
            lambda: connect(place.chief, KEY, hello_of(1, num_learners=3), 5).close(),
        )
        assert len(meeting.members) == 1
