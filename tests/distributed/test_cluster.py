import json
import socket

import hypothesis
import pytest
from hypothesis import strategies

from agents.distributed.cluster import (
    Address,
    Cluster,
    check_learners,
    divides,
    is_loopback,
    listen,
    parse_address,
    read_cluster,
)
from agents.errors import MAX_LINE_LENGTH, UsageError, describe_error
from agents.settings.config_file import load_config
from agents.settings.derived import elements_per_minibatch
from tests.distributed.meetings import listening

ONE, TWO, THREE = Address("10.0.0.1", 2222), Address("10.0.0.2", 2222), Address("10.0.0.3", 22)


def tf_config(kind, index, **cluster):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def refused(function, *arguments):
    """Returns the message of the error that a function raises."""
    with pytest.raises(UsageError) as caught:
        function(*arguments)
    lines = str(caught.value).splitlines()
    assert len(lines) <= 3
    assert all(len(line) <= MAX_LINE_LENGTH for line in describe_error(caught.value, 3))
    return str(caught.value)


WORKERS = [str(ONE), str(TWO), str(THREE)]


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (tf_config("worker", 0, worker=WORKERS), 0),
        (tf_config("worker", 2, worker=WORKERS), 2),
        (tf_config("worker", "2", worker=WORKERS), 2),  # Some schedulers write strings.
        (tf_config("chief", 0, chief=WORKERS[:1], worker=WORKERS[1:]), 0),
        (tf_config("worker", 1, worker=WORKERS[1:], chief=WORKERS[:1]), 2),
        (tf_config("worker", 1, chief=[], worker=WORKERS), 1),
        # With fields that are for others.
        (
            json.dumps({**json.loads(tf_config("worker", 1, worker=WORKERS)), "rpc_layer": "grpc"}),
            1,
        ),
    ],
)
def test_the_chief_is_first_and_workers_follow_in_their_order(text, rank):
    assert read_cluster(text) == Cluster((ONE, TWO, THREE), rank)


def test_a_cluster_may_have_one_learner():
    assert read_cluster(tf_config("chief", 0, chief=["trainer-0:1"])) == Cluster(
        (Address("trainer-0", 1),), 0
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:80", Address("localhost", 80)),
        ("trainer-0.trainers.default.svc:2222", Address("trainer-0.trainers.default.svc", 2222)),
        ("some_service:65535", Address("some_service", 65535)),
        ("[::1]:2222", Address("::1", 2222)),
        ("[fe80::1%eth0]:2222", Address("fe80::1%eth0", 2222)),
    ],
)
def test_addresses_are_read_and_written(text, address):
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "host:", ":1", "host:port", "host:-1", "host:0", "host:65536", "host:1.5"),
        *("host:" + "9" * 5000, "::1:2222", "fe80::1", "[::1]", "[::1:2222", "::1]:2222", "[]:1"),
        *(
            "two words:1",
            "line\nbreak:1",
            "nul\0:1",
            "..:1",
            ".a:1",
            "a" * 64 + ".de:1",
            "\ud800:1",
        ),
        *("http://host:1", "user@host:1", "host:1:2", 5, None, ["host:1"], {}, True),
    ],
)
def test_other_addresses_are_refused(text):
    with pytest.raises(ValueError, match="is no host:port"):
        parse_address(text)
    message = refused(read_cluster, tf_config("worker", 0, worker=[text]))
    assert message.startswith("TF_CONFIG: ") and "is no host:port\nexpected " in message


@pytest.mark.parametrize("kind", ["evaluator", "ps", "master", "Worker", "a\nb"])
def test_other_tasks_are_refused_by_name(kind):
    for text in (
        tf_config(kind, 0, worker=WORKERS),
        tf_config(kind, 0, worker=WORKERS[:2], **{kind: WORKERS[2:]}),
        tf_config("worker", 0, worker=WORKERS[:2], **{kind: WORKERS[2:]}),
    ):
        message = refused(read_cluster, text)
        assert f"tasks of type {kind!r} have no place in data-parallel training" in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("no JSON", "Expecting value"),
        ("{}", "'cluster' is missing"),
        ('{"cluster": {}}', "'task' is missing"),
        ('{"cluster": {}, "task": {"index": 0}}', "'type' is missing"),
        ('{"cluster": {}, "task": {"type": "worker"}}', "'index' is missing"),
        ("[]", "another structure"),
        ("5", "another structure"),
        ("null", "another structure"),
        ("[" * 100_000, "another structure"),
        ('{"cluster": [], "task": {"type": "worker", "index": 0}}', "another structure"),
        ('{"cluster": {}, "task": "worker"}', "another structure"),
        (tf_config(["worker"], 0, worker=WORKERS), "another structure"),
        (tf_config(5, 0, worker=WORKERS), "tasks of type 5 have no place"),
        (tf_config(None, 0, worker=WORKERS, ps=WORKERS), "another structure"),
        (tf_config("worker", 0, worker="10.0.0.1:2222"), "another structure"),
        (tf_config("worker", 0, worker={"0": "10.0.0.1:2222"}), "another structure"),
        (tf_config("worker", 0, worker=None), "another structure"),
        (tf_config("worker", 0), "no task 0 of type 'worker'"),
        (tf_config("worker", 3, worker=WORKERS), "no task 3 of type 'worker'"),
        (tf_config("worker", -1, worker=WORKERS), "no task -1 of type 'worker'"),
        (tf_config("chief", 1, chief=WORKERS[:1], worker=WORKERS[1:]), "no task 1 of type 'chief'"),
        (tf_config("chief", 0, worker=WORKERS), "no task 0 of type 'chief'"),
        (tf_config("worker", 1.5, worker=WORKERS), "'1.5'"),
        (tf_config("worker", True, worker=WORKERS), "'True'"),
        (tf_config("worker", None, worker=WORKERS), "'None'"),
        (tf_config("worker", "first", worker=WORKERS), "'first'"),
        (tf_config("worker", 0, worker=["a:1", "b:1", "a:1"]), "two tasks have the same address"),
        (tf_config("worker", 0, chief=["a:1"], worker=["a:01"]), "two tasks have the same address"),
    ],
)
def test_what_is_wrong_is_said_in_one_error(text, problem):
    message = refused(read_cluster, text)
    assert message.startswith("TF_CONFIG: ") and problem in message.splitlines()[0]
    assert 'expected {"cluster": {"worker": ["host:port", ...]}' in message


JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(strategies.sampled_from(["chief", "worker", "ps"]), inner)
        | strategies.fixed_dictionaries(
            {"cluster": inner, "task": inner, "type": inner, "index": inner}
        )
    ),
    max_leaves=12,
)


@hypothesis.given(JSON | strategies.text())
@hypothesis.settings(deadline=None, max_examples=200)
def test_anything_else_is_refused_as_well(content):
    refused(read_cluster, content if isinstance(content, str) else json.dumps(content))


def test_listens_at_the_given_interface_only():
    for host, family in (("127.0.0.1", socket.AF_INET), ("localhost", None), ("::1", None)):
        if host == "::1" and not has_ipv6():
            continue
        with listen(Address(host, 0)) as listener:
            name, port, *_ = listener.getsockname()
            assert family is None or listener.family == family
            assert name in ("127.0.0.1", "::1")
            assert listening(port) == {name}
            socket.create_connection((host, port)).close()


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_a_port_that_is_taken_is_refused():
    with listen(Address("127.0.0.1", 0)) as listener:
        address = Address(*listener.getsockname())
        message = refused(listen, address)
        assert f"can't listen at {address}: Address already in use" in message
    listen(address).close()  # At once, as after a restart.


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "2001:db8::1"])
def test_other_machines_interfaces_are_refused(host):
    message = refused(listen, Address(host, 2222))
    assert message.startswith(f"can't listen at {Address(host, 2222)}: ")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("localhost.example.org", False),
        ("learner-0", False),
    ],
)
def test_only_the_loopback_interface_is_private(host, expected):
    assert is_loopback(host) == expected


def config(**settings):
    return load_config("default", **{"num_envs": 8, "minibatch_size": 64, **settings})


@pytest.mark.parametrize(
    ("settings", "num_learners", "problem", "expected"),
    [
        ({}, 3, "num_envs 8,", "2 or 4 learners, or another --num-envs"),
        ({}, 7, "num_envs 8,", "4 or 8 learners, or another --num-envs"),
        ({}, 9, "num_envs 8,", "8 learners, or another --num-envs"),
        ({}, 10**6, "num_envs 8,", "8 learners, or another --num-envs"),
        ({"num_envs": 7}, 2, "num_envs 7,", "1 learner, or another --num-envs"),
        (
            {"num_envs": 12, "minibatch_size": 64},
            3,
            "minibatch_size 64,",
            "2 or 4 learners, or another --minibatch-size",
        ),
        (
            {"recurrent": "gru", "minibatch_size": 64, "sequence_length": 16},
            8,
            "minibatch_size 64 into sequences of 16 steps,",
            "4 learners, or another --minibatch-size or --sequence-length",
        ),
        (
            {"recurrent": "lstm", "minibatch_size": 256},
            2,
            "minibatch_size 256 into sequences of 256 steps,",
            "1 learner, or another --minibatch-size or --sequence-length",
        ),
    ],
)
def test_numbers_of_learners_that_do_not_divide(settings, num_learners, problem, expected):
    message = refused(check_learners, config(**settings), num_learners)
    assert f"{num_learners} learners do not divide {problem}" in message
    assert message.endswith(f"expected {expected}")


def test_numbers_of_learners_that_divide():
    for num_learners in (1, 2, 4, 8):
        check_learners(config(), num_learners)
    check_learners(config(recurrent="gru", sequence_length=16), 4)


@hypothesis.given(
    strategies.sampled_from([1, 2, 6, 12, 30, 64]),
    strategies.sampled_from([1, 2, 4, 8, 16]),
    strategies.sampled_from(["none", "gru"]),
    strategies.integers(1, 70),
)
@hypothesis.settings(deadline=None)
def test_every_learner_has_as_many_environments_and_elements(
    num_envs, minibatch_size, recurrent, num_learners
):
    settings = config(
        num_envs=num_envs, minibatch_size=minibatch_size, rollout_length=16, recurrent=recurrent
    )
    elements = elements_per_minibatch(settings)
    is_possible = num_envs % num_learners == 0 and elements % num_learners == 0
    assert divides(settings, num_learners) == is_possible
    if is_possible:
        check_learners(settings, num_learners)
    else:
        numbers = refused(check_learners, settings, num_learners).partition("\nexpected ")[2]
        for number in numbers.partition(" learner")[0].split(" or "):
            assert divides(settings, int(number))
