import json

import hypothesis
import pytest
from hypothesis import strategies

from agents.distributed.cluster import (
    Address,
    Cluster,
    check_learners,
    check_trusted,
    divides,
    parse_address,
    read_cluster,
    read_slurm,
)
from agents.errors import MAX_LINE_LENGTH, UsageError, describe_error
from agents.scripts.train import scheduler_of
from agents.settings.config import elements_per_minibatch
from agents.settings.config_file import load_config

WORKERS = ["10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:22"]


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


@pytest.mark.parametrize(("text", "rank"), [
    (tf_config("worker", 2, worker=WORKERS), 2),
    (tf_config("worker", "2", worker=WORKERS), 2),  # Some schedulers write strings.
    (tf_config("chief", 0, chief=WORKERS[:1], worker=WORKERS[1:]), 0),
    (tf_config("worker", 1, worker=WORKERS[1:], chief=WORKERS[:1]), 2),
    ('{"rpc_layer": "grpc", ' + tf_config("worker", 1, worker=WORKERS)[1:], 1),
])  # fmt: skip
def test_the_chief_is_first_and_workers_follow_in_their_order(text, rank):
    assert read_cluster(text) == Cluster(rank, 3, tuple(WORKERS))


@pytest.mark.parametrize(("host", "port"), [
    ("localhost", 80), ("trainer-0.trainers.default.svc", 2222), ("some_service", 65535),
    ("::1", 2222), ("fe80::1%eth0", 2222),
])  # fmt: skip
def test_addresses_are_read_and_written(host, port):
    text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    assert parse_address(text) == Address(host, port)
    assert str(Address(host, port)) == text


@pytest.mark.parametrize("text", [
    "", "host", "host:", ":1", "host:port", "host:-1", "host:0", "host:65536", "host:1.5",
    "host:" + "9" * 5000, "::1:2222", "fe80::1", "[::1]", "[::1:2222", "::1]:2222", "[]:1",
    "two words:1", "line\nbreak:1", "nul\0:1", "..:1", ".a:1", "a" * 64 + ".de:1", "\ud800:1",
    "http://host:1", "user@host:1", "host:1:2", 5, None, ["host:1"], {}, True,
])  # fmt: skip
def test_other_addresses_are_refused(text):
    message = refused(read_cluster, tf_config("worker", 0, worker=[text]))
    assert message.startswith("TF_CONFIG: ") and "is not host:port\nexpected " in message


NO_PLACE = "tasks of type {!r} are not supported in data-parallel training"
OTHER = "another structure"


@pytest.mark.parametrize(("text", "problem"), [
    ("", "Expecting value"),
    ("{}", "'cluster' is missing"),
    ('{"cluster": {}}', "'task' is missing"),
    ('{"cluster": {}, "task": {"type": "worker"}}', "'index' is missing"),
    ("null", OTHER),
    ("[" * 100_000, OTHER),
    ('{"cluster": [], "task": {"type": "worker", "index": 0}}', OTHER),
    (tf_config("worker", 0, worker="10.0.0.1:2222"), OTHER),
    (tf_config("ps", 0, worker=WORKERS), NO_PLACE.format("ps")),
    (tf_config("Worker", 0, worker=WORKERS), NO_PLACE.format("Worker")),
    (tf_config("a\nb", 0, worker=WORKERS), NO_PLACE.format("a\nb")),
    (tf_config(5, 0, worker=WORKERS), NO_PLACE.format(5)),
    (tf_config("evaluator", 0, worker=WORKERS, evaluator=[]), NO_PLACE.format("evaluator")),
    (tf_config("worker", 0, worker=WORKERS, ps=[]), NO_PLACE.format("ps")),
    (tf_config("worker", 3, worker=WORKERS), "no task 3 of type 'worker'"),
    (tf_config("worker", -1, worker=WORKERS), "no task -1 of type 'worker'"),
    (tf_config("chief", 0, worker=WORKERS), "no task 0 of type 'chief'"),
    (tf_config("worker", 1.5, worker=WORKERS), "'1.5'"),
    (tf_config("worker", "first", worker=WORKERS), "'first'"),
    (tf_config("worker", 0, worker=["a:1", "b:1", "a:1"]), "two tasks have the same address"),
    (tf_config("worker", 0, chief=["a:1"], worker=["a:01"]), "two tasks have the same address"),
])  # fmt: skip
def test_wrong_tf_configs_are_one_error(text, problem):
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


# Slurm.


def slurm(num_tasks, nodes, tasks_per_node, node, local_id, job="301"):
    return {
        "SLURM_LOCALID": str(local_id),
        "SLURM_JOB_ID": job,
        "SLURM_STEP_NUM_TASKS": str(num_tasks),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": tasks_per_node,
        "SLURMD_NODENAME": node,
    }


@pytest.mark.parametrize(("variables", "rank", "addresses"), [
    (slurm(2, "n[01-02]", "1(x2)", "n01", 0), 0, "n01:12064 n02:12064"),
    (slurm(4, "a-1,b-[3]", "3,1", "b-3", 0), 3, "a-1:12064 a-1:12065 a-1:12066 b-3:12064"),
    (slurm(3, "a-1,b-3", "2,1", "a-1", 1, job="0"), 1, "a-1:12000 a-1:12001 b-3:12000"),
    # TensorFlow sorts the nodes by name.
    (slurm(2, "n[9-10]", "1(x2)", "n9", 0), 1, "n10:12064 n9:12064"),
])  # fmt: skip
def test_slurm_tells_each_task_its_place(variables, rank, addresses, monkeypatch):
    for name, value in {"SLURM_PROCID": str(rank), **variables}.items():
        monkeypatch.setenv(name, value)
    listed = tuple(addresses.split())
    assert read_slurm(variables) == Cluster(rank, len(listed), listed)
    for name in variables:
        monkeypatch.delenv(name)
        some = {other: value for other, value in variables.items() if other != name}
        message = refused(read_slurm, some)
        assert name.removeprefix("SLURM_") in message and "srun" in message
        monkeypatch.setenv(name, variables[name])


@pytest.mark.parametrize(("variables", "expected"), [
    ({}, ""),
    ({"TF_CONFIG": ""}, ""),
    ({"TF_CONFIG": "{}"}, "TF_CONFIG"),
    ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}, ""),  # In a batch script, without srun.
    ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, ""),
    ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, "srun"),
    ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "TF_CONFIG": "{}"}, "TF_CONFIG"),
])  # fmt: skip
def test_schedulers_are_known_by_their_variables(variables, expected):
    assert scheduler_of(variables) == expected


# Networks and shares.


def test_only_public_addresses_are_refused():
    check_trusted(["10.0.0.1:1", "192.168.1.1:1", "172.16.0.1:1", "localhost:1", "[::1]:1"])
    check_trusted(["100.64.0.1:1", "[fe80::1%lo]:1", "[fd00::1]:1", "no-such-host.invalid:1"])
    for host in ("8.8.8.8", "[2600::]"):
        message = refused(check_trusted, ["10.0.0.1:22", f"{host}:23"])
        assert message.startswith(f"{host}:23 is a public address") and "--trust-network" in message


def config(**settings):
    return load_config("default", **{"num_envs": 8, "minibatch_size": 64, **settings})


@pytest.mark.parametrize(("settings", "num_learners", "problem", "expected"), [
    ({}, 3, "num_envs 8 of all learners", "2 or 4 learners, or another --num-envs"),
    ({}, 10**6, "num_envs 8 of all learners", "8 learners, or another --num-envs"),
    ({"num_envs": 7}, 2, "num_envs 7 of all learners", "1 learner, or another --num-envs"),
    ({"num_envs": 12}, 3, "minibatch_size 64 of all learners", "2 or 4 learners, or another --minibatch-size"),
    ({"recurrent": "gru", "sequence_length": 16}, 8, "minibatch_size 64 into sequences of 16 steps of all learners",
     "4 learners, or another --minibatch-size or --sequence-length"),
])  # fmt: skip
def test_numbers_of_learners_that_do_not_divide(settings, num_learners, problem, expected):
    message = refused(check_learners, config(**settings), num_learners)
    assert f"{num_learners} learners do not divide {problem}" in message
    assert message.endswith(f"expected {expected}")


@hypothesis.given(
    strategies.sampled_from([1, 2, 6, 12, 30, 64]),
    strategies.sampled_from([1, 2, 4, 8, 16]),
    strategies.sampled_from(["none", "gru"]),
    strategies.integers(1, 70),
)
@hypothesis.settings(deadline=None)
def test_every_learner_has_as_many_environments_and_elements(num_envs, size, recurrent, learners):
    settings = config(
        num_envs=num_envs, minibatch_size=size, rollout_length=16, recurrent=recurrent
    )
    is_possible = num_envs % learners == 0 and elements_per_minibatch(settings) % learners == 0
    assert divides(settings, learners) == is_possible
    if is_possible:
        check_learners(settings, learners)
    else:
        numbers = refused(check_learners, settings, learners).partition("\nexpected ")[2]
        for number in numbers.partition(" learner")[0].split(" or "):
            assert divides(settings, int(number))
