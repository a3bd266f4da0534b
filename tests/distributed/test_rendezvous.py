import contextlib
import itertools
import socket
import subprocess
import sys
import threading
import time

import pytest

from agents.distributed import rendezvous
from agents.distributed.cluster import Address, listen
from agents.distributed.connection import arrivals, connect
from agents.errors import LearnerLostError, UsageError
from tests.distributed.exchanges import results, together
from tests.distributed.meetings import (
    KEY,
    check_meetings,
    config,
    hello_of,
    leaving,
    listening,
    num_descriptors,
    places,
)


@pytest.mark.parametrize("num_learners", [1, 2, 6])
def test_all_learners_meet(num_learners):
    with leaving() as meet:
        meetings = results(
            *(
                lambda place=place: meet(place, config(), 100 + place.rank)
                for place in places(num_learners)
            )
        )
        check_meetings(meetings)
        assert [member.process for member in meetings[0].members] == [
            100 + rank for rank in range(num_learners)
        ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_learners_come_in_any_order(order, monkeypatch):
    """Each starts once the one before it is on its way; the chief may be the last."""
    monkeypatch.setattr(rendezvous, "_RETRY_SECONDS", 0.01)
    with leaving() as meet:
        came = [threading.Event() for _ in order]
        made = places(3)
        address = made[0].chief
        # The chief opens its port by itself, when it is its turn.
        socket.socket(fileno=made[0].listener).close()
        made[0] = made[0]._replace(listener=None, port=address.port)

        def learn(place):
            turn = order.index(place.rank)
            assert turn == 0 or came[turn - 1].wait(5)
            came[turn].set()
            return meet(place, config(), place.rank)

        check_meetings(results(*(lambda place=place: learn(place) for place in made)))


LEARNER = """
import json, os, sys
from agents.distributed.cluster import Address
from agents.distributed.rendezvous import Place, meet
from agents.settings.config_file import load_config

rank, port = map(int, sys.argv[1:])
place = Place(rank, 3, Address("127.0.0.1", port), "127.0.0.1", b"key", port=0 if rank else port)
config = load_config("default", num_envs=12, minibatch_size=12, start_timeout=30)
meeting = meet(place, config, os.getpid())
print(json.dumps([meeting.rank, [member.process for member in meeting.members]]))
sys.stdin.read()
"""


def test_processes_meet():
    with listen(Address("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", LEARNER, str(rank), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (2, 1, 0)
    ]
    try:
        lines = [process.stdout.readline() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    ids = [process.pid for process in reversed(processes)]
    assert lines == [f"[{rank}, {ids}]\n" for rank in (2, 1, 0)]


@pytest.mark.timing
@pytest.mark.parametrize(
    ("settings", "name", "theirs", "own"),
    [
        ({"learning_rate": 0.5}, "learning_rate", "0.5", "0.0"),
        ({"seed": 3}, "seed", "3", "0"),
        ({"env": "Acrobot-v1"}, "env", "'Acrobot-v1'", "'"),
        ({"layers": [7]}, "layers", "[7]", "[64, 64]"),
    ],
)
def test_another_setting_is_refused_with_its_name_on_both_sides(settings, name, theirs, own):
    other = config(**settings)
    assert name in type(other).model_fields
    start = time.monotonic()
    chief, place = places(2)
    outcomes = together(
        lambda: rendezvous.meet(chief, config(), 0), lambda: rendezvous.meet(place, other, 1)
    )
    assert time.monotonic() - start < 25
    for outcome in outcomes:
        assert isinstance(outcome, UsageError) and len(str(outcome).splitlines()) <= 3
        assert f"its {name} is {theirs}, the chief's is {own}" in str(outcome)
    assert str(outcomes[0]).startswith("learner 1 on 127.0.0.1: ")
    assert str(outcomes[1]).startswith(f"the chief at {place.chief} refuses learner 1: ")


def test_another_version_is_refused_on_both_sides(monkeypatch):
    chief, place = places(2)
    with leaving() as meet:

        def learn():
            hello = hello_of(1, version="0.0.1")
            connection = connect(place.chief, KEY, hello, 5)
            with contextlib.closing(connection):
                return connection.receive_one(5)

        outcome, answer = together(lambda: meet(chief, config(), 0), learn)
    reason = f"its version is '0.0.1', the chief's is {rendezvous.__version__!r}"
    assert str(outcome) == f"learner 1 on test: {reason}"
    assert answer == {"refused": reason}


def test_settings_of_the_machine_may_differ():
    others = {"num_processes": 3, "threads": 2, "start_timeout": 9, "step_timeout": 7}
    with leaving() as meet:
        chief, place = places(2)
        check_meetings(
            results(lambda: meet(chief, config(), 0), lambda: meet(place, config(**others), 1))
        )


def test_the_first_difference_is_named_in_every_run():
    """Whatever the order of a set of strings is in this process."""
    other = config(seed=3, learning_rate=0.5, discount=0.5)
    first = next(
        name
        for name in type(other).model_fields
        if name in other.model_fields_set and (getattr(other, name) != getattr(config(), name))
    )
    chief, place = places(2)
    outcome, _ = together(
        lambda: rendezvous.meet(chief, config(), 0), lambda: rendezvous.meet(place, other, 1)
    )
    assert f"its {first} is" in str(outcome)


def test_two_learners_with_one_number_are_refused():
    chief, place, _ = places(3)
    # Who comes once the chief has given up can't reach it.
    settings = config(start_timeout=1)
    outcomes = together(
        lambda: rendezvous.meet(chief, config(), 0),
        lambda: rendezvous.meet(place, settings, 0),
        lambda: rendezvous.meet(place, settings, 0),
    )
    assert all(isinstance(outcome, UsageError) for outcome in outcomes)
    assert str(outcomes[0]) == "learner 1 on 127.0.0.1: there is a learner 1 already"
    assert sum("refuses learner 1: there is" in str(outcome) for outcome in outcomes[1:]) == 1


@pytest.mark.parametrize("num_learners", [2, 4])
def test_learners_of_clusters_of_other_sizes_are_refused(num_learners):
    chief, place, _ = places(3)
    outcomes = together(
        lambda: rendezvous.meet(chief, config(), 0),
        lambda: rendezvous.meet(place._replace(num_learners=num_learners), config(), 0),
    )
    for outcome in outcomes:
        assert isinstance(outcome, UsageError)
        assert f"its number of learners is {num_learners}, the chief's is 3" in str(outcome)


def test_others_hear_that_the_chief_has_refused_somebody():
    chief, place, last = places(3)

    def learn_late():
        time.sleep(0.3)  # The other one waits at the chief's by now.
        rendezvous.meet(last, config(seed=1), 0)

    outcomes = together(
        lambda: rendezvous.meet(chief, config(), 0),
        lambda: rendezvous.meet(place, config(), 0),
        learn_late,
    )
    assert "learner 2" in str(outcomes[0])
    assert str(outcomes[1]) == f"the chief at {place.chief} has ended: {outcomes[0]}"


@pytest.mark.timing
def test_a_learner_that_does_not_come_is_named():
    chief, place, *_ = places(4)
    start = time.monotonic()
    outcome, other = together(
        lambda: rendezvous.meet(chief, config(start_timeout=0.6), 0),
        lambda: rendezvous.meet(place, config(), 0),
    )
    assert 0.5 < time.monotonic() - start < 25
    assert isinstance(outcome, UsageError) and len(str(outcome).splitlines()) <= 3
    assert "learner 2 did not join within 0.6 s (2 of 4 are there)" in str(outcome)
    assert f"has to reach {place.chief} with the same key; see --start-timeout" in str(outcome)
    assert isinstance(other, UsageError)
    assert f"has ended: {str(outcome).splitlines()[0]}" in str(other)


def test_a_chief_that_dies_while_it_waits_is_lost():
    """It may be started again, and the others, too; not so if it has refused somebody."""
    chief, place, _ = places(3)
    with socket.socket(fileno=chief.listener) as listener:

        def die():
            for connection, _ in arrivals(listener, chief.key, lambda: False):
                connection.close()
                break

        _, error = together(die, lambda: rendezvous.meet(place, config(), 0))
    assert isinstance(error, LearnerLostError) and error.rank == 0
    assert str(error) == (
        "learner 0 (the chief) on 127.0.0.1 closed its connection before all learners had come"
    )


def test_a_chief_that_does_not_come_is_named():
    chief, place = places(2)
    socket.socket(fileno=chief.listener).close()
    [outcome] = together(lambda: rendezvous.meet(place, config(start_timeout=0.5), 0))
    assert isinstance(outcome, UsageError) and len(str(outcome).splitlines()) <= 3
    assert str(outcome).startswith(
        f"learner 1 can't reach the chief at {place.chief} within 0.5 s: "
    )
    assert "refused" in str(outcome)


def test_a_learner_with_another_key_is_told_what_is_wrong():
    chief, place = places(2)
    outcome, other = together(
        lambda: rendezvous.meet(chief, config(start_timeout=4), 0),
        lambda: rendezvous.meet(place._replace(key=b"another"), config(start_timeout=3), 0),
    )
    assert "learner 1 did not join" in str(outcome) and "with the same key" in str(outcome)
    assert "within 3 s: has another key" in str(other)


@pytest.mark.timing
def test_waits_no_longer_than_until_all_have_come():
    start = time.monotonic()
    with leaving() as meet:
        made = places(2, minimum=1)
        results(*(lambda one=one: meet(one, config(start_timeout=60), 0) for one in made))
    assert time.monotonic() - start < 25


@pytest.mark.timing
def test_strangers_delay_nobody():
    chief, place = places(2)
    strangers = [socket.create_connection(place.chief) for _ in range(20)]
    start = time.monotonic()
    with leaving() as meet:
        for stranger in strangers[::2]:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        check_meetings(results(lambda: meet(chief, config(), 0), lambda: meet(place, config(), 1)))
    assert time.monotonic() - start < 25
    for stranger in strangers:
        stranger.close()


@pytest.mark.parametrize(
    "hello",
    [
        {},
        {"kind": "ring", "rank": 1},  # Of an earlier attempt of the same learners.
        hello_of("first"),
        hello_of(None),
        hello_of([1]),
        hello_of(1, port="http"),
        hello_of(1, process=None),
    ],
)
def test_who_is_no_learner_is_sent_away(hello):
    chief, place = places(2)
    with leaving() as meet:

        def learn():
            with contextlib.closing(connect(place.chief, KEY, hello, 5)) as connection:
                with pytest.raises(ConnectionError):
                    connection.receive_one(5)
            return meet(place, config(), 1)

        check_meetings(results(lambda: meet(chief, config(), 0), learn))


def test_a_learner_that_has_ended_may_come_again():
    """While the chief waits for others."""
    chief, place, last = places(3)
    with leaving() as meet:
        ended = threading.Event()

        def learn():
            connect(place.chief, KEY, hello_of(1, num_learners=3), 5).close()
            ended.set()
            return meet(place, config(), 1)

        def learn_late():
            ended.wait(5)
            return meet(last, config(), 2)

        check_meetings(results(lambda: meet(chief, config(), 0), learn, learn_late))


def test_listens_on_the_given_interface_only():
    with leaving() as meet:
        made = places(2, port=0)
        meetings = results(*(lambda one=one: meet(one, config(), 0) for one in made))
        for meeting in meetings:
            assert listening(meeting.listener.getsockname()[1]) == {"127.0.0.1"}


def test_learners_on_interfaces_of_their_own():
    """Loopback has a whole network of addresses, each of which stands for a machine here."""
    with listen(Address("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hosts = [f"127.0.0.{number}" for number in (2, 3, 4)]
    chief = Address(hosts[0], port)
    with leaving() as meet:
        made = [
            rendezvous.Place(rank, 3, chief, host, KEY, port) for rank, host in enumerate(hosts)
        ]
        meetings = results(*(lambda one=one: meet(one, config(), 0) for one in made))
        check_meetings(meetings)
        assert listening(port) == set(hosts)
        assert [member.address for member in meetings[1].members] == [
            Address(host, port) for host in hosts
        ]


def test_a_port_that_is_taken_is_refused():
    _, place = made = places(2)
    with pytest.raises(UsageError, match="can't listen at"):
        rendezvous.meet(place._replace(port=place.chief.port), config(), 0)
    socket.socket(fileno=made[0].listener).close()


def test_no_descriptors_stay_behind():
    def fail(*settings):
        chief, *others = places(len(settings))
        together(
            lambda: rendezvous.meet(chief, settings[0], 0),
            *(
                lambda place=place, own=own: rendezvous.meet(place, own, 0)
                for place, own in zip(others, settings[1:], strict=True)
            ),
        )

    short = config(start_timeout=0.2)
    before = num_descriptors()
    fail(config(), config(seed=1))
    fail(config(), *2 * [config(seed=1, start_timeout=0.5)])
    fail(short, short, config(seed=1))
    made = places(3, minimum=1)
    together(*(lambda one=one: rendezvous.meet(one, short, 0) for one in made[:1]))[
        0
    ].listener.close()
    assert num_descriptors() == before
