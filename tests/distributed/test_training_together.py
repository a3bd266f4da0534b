"""Several learners train as one: equal variables, the maths of one learner, any number resumes."""

import glob
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agents.backends.backend import make_backend
from agents.distributed.group_reducer import GroupReducer
from agents.learning.reduction import SINGLE_LEARNER
from agents.settings.config_file import load_config
from agents.storage.checkpoint import fingerprint
from agents.training.algorithms import find_algorithm
from agents.training.learner import Learner
from tests.distributed.learners import ROOT, run_together

SMALL = {
    "env_backend": "tf",
    "num_envs": 4,
    "rollout_length": 16,
    "minibatch_size": 16,
    "epochs": 2,
    "layers": (8,),
    "eval_episodes": 1,
}
# Everything that learners agree on, and state of single environments.
SETTINGS = {
    "feed-forward": {
        "normalize_value": True,
        "objective": "clip_kl",
        "learning_rate_schedule": "kl",
        "kl_stop": 0.05,
        "noise_correlation": 0.5,
    },
    "recurrent": {"recurrent": "gru", "recurrent_units": 3, "sequence_length": 4},
    "weights once an epoch": {"reduce_every": "epoch", "critic_learning_rate": 1e-3},
}


def make_learner(config, reducer=SINGLE_LEARNER):
    backend = make_backend(config)
    envs = backend.make(backend.check(), config.num_envs // reducer.num_learners, training=True)
    learner = Learner(envs, None, find_algorithm(config.algorithm), config, reducer)
    learner.begin_episodes()
    return learner


def iterate(group, config):
    """Fingerprints of all variables after each of three iterations, and the weights at the end."""
    group.start()
    reducer = GroupReducer(group)
    learner = make_learner(config, reducer)
    fingerprints = []
    for _ in range(3):
        learner.iterate()
        fingerprints.append(fingerprint(learner.variables()))
    return fingerprints, list_values(learner), learner.report()


def reduce_gradients(group, config):
    """The gradients of the first minibatch, of all learners."""
    group.start()
    learner = make_learner(config, GroupReducer(group))
    learner.iterate()
    return list_gradients(learner)


def list_gradients(learner):
    arrays = learner.arrays()
    return {tag: arrays[tag].tolist() for tag in arrays if tag.startswith("weight_gradients/")}


def list_values(learner):
    return {name: variable.numpy().tolist() for name, variable in learner.variables().items()}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(
    "num_learners, shares_memory", [(2, True), pytest.param(4, False, marks=pytest.mark.slow)]
)
def test_all_variables_are_equal_on_all_learners(num_learners, shares_memory, settings):
    results = run_together(iterate, num_learners, shares_memory=shares_memory, **SMALL, **settings)
    fingerprints, _, report = results[0]
    assert len(set(fingerprints)) == 3
    for others, _, other_report in results[1:]:
        assert others == fingerprints
        same = {tag for tag in report if tag.startswith(("losses/", "schedule/", "episode/"))}
        assert {tag: report[tag] for tag in same} == {tag: other_report[tag] for tag in same}


@pytest.mark.parametrize(
    "settings", [{}, pytest.param(SETTINGS["recurrent"], id="recurrent", marks=pytest.mark.slow)]
)
def test_learners_follow_the_maths_of_one_with_all_environments(settings):
    # Minibatches are whole rollouts: those of several learners have other elements otherwise.
    # Adam's steps are as long for gradients that are nothing but rounding.
    settings = {**SMALL, **settings, "minibatch_size": 64, "optimizer": "sgd"}
    [(_, together, report), _] = run_together(iterate, 2, **settings)
    learner = make_learner(load_config("pendulum", **settings))
    for _ in range(3):
        learner.iterate()
    alone = list_values(learner)
    assert together.keys() == alone.keys()
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    for tag, number in learner.report().items():
        if tag.startswith(("losses/", "episode/")):
            np.testing.assert_allclose(report[tag], number, rtol=2e-3, atol=1e-4, err_msg=tag)


@pytest.mark.parametrize("num_learners", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_reduced_gradient_is_that_of_the_joined_batch(num_learners):
    settings = {**SMALL, "minibatch_size": 64, "epochs": 1}
    reduced = run_together(reduce_gradients, num_learners, **settings)
    learner = make_learner(load_config("pendulum", **settings))
    learner.iterate()
    expected = list_gradients(learner)
    assert len(expected) > 4
    for gradients in reduced:
        assert gradients.keys() == expected.keys()
        for tag, gradient in expected.items():
            np.testing.assert_allclose(gradients[tag], gradient, atol=1e-6, err_msg=tag)


# Commands.


def command(logdir, *arguments, steps):
    settings = ["--config=pendulum", "--env-backend=tf", "--num-envs=4", "--minibatch-size=100"]
    schedule = [
        "--learning-rate-schedule=constant",
        "--eval-episodes=2",
        "--eval-interval=4000",
        "--checkpoint-interval=2000",
    ]
    resumed = glob.glob(f"{logdir}/*")
    given = [f"--timestamp={Path(resumed[0]).name.split('-')[0]}"] if resumed else settings
    called = [sys.executable, "-m", "agents.scripts.train", f"--logdir={logdir}"]
    return [*called, *given, *schedule, f"--steps={steps}", *arguments]


def train(logdir, *arguments, steps, workers):
    return subprocess.run(
        command(logdir, f"--workers={workers}", *arguments, steps=steps),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def start_in_cluster(logdir, addresses, rank, key="of this test"):
    """Starts one learner as a scheduler does."""
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    return subprocess.Popen(
        command(logdir, steps=2000),
        cwd=ROOT,
        env={**os.environ, "TF_CONFIG": json.dumps(cluster), "AGENTS_CLUSTER_KEY": key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def last_checkpoint(logdir):
    files = glob.glob(f"{logdir}/*/checkpoints/step-*.npz")
    with np.load(max(files, key=lambda path: int(Path(path).stem.split("-")[1]))) as content:
        return {name: content[name] for name in content.files if not name.startswith("@run")}


def test_a_run_of_several_learners_is_as_any_other(tmp_path):
    process = train(tmp_path, steps=2000, workers=2)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("The last evaluation gave")
    assert "learner 1" not in process.stderr  # One output.
    assert process.stderr.count("step 2,000: evaluation") == 1
    resumed = train(tmp_path, steps=2400, workers=1)
    assert resumed.returncode == 0, resumed.stderr
    assert "Resuming" in resumed.stderr


@pytest.mark.slow
def test_a_run_resumes_with_as_many_learners_as_if_it_had_never_stopped_and_with_others(tmp_path):
    for folder, steps in (("two", 4000), ("two", 8000), ("whole", 8000)):
        process = train(tmp_path / folder, steps=steps, workers=2)
        assert process.returncode == 0, process.stderr
    one, other = last_checkpoint(tmp_path / "two"), last_checkpoint(tmp_path / "whole")
    assert one.keys() == other.keys() and len(one) > 20
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    for steps, workers in ((9600, 1), (11_200, 4)):
        resumed = train(tmp_path / "two", steps=steps, workers=workers)
        assert resumed.returncode == 0, resumed.stderr
        assert "Resuming" in resumed.stderr


def test_learners_that_do_not_divide_the_work_are_refused(tmp_path):
    process = train(tmp_path, steps=4000, workers=3)
    assert process.returncode == 2
    assert "3 learners do not divide num_envs 4" in process.stderr
    assert "expected 2 or 4 learners" in process.stderr
    assert len(process.stderr.splitlines()) <= 3
    assert not list(tmp_path.iterdir())


def test_learners_that_a_scheduler_starts_train_as_those_of_one_command(tmp_path):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = [start_in_cluster(tmp_path / str(rank), addresses, rank) for rank in (0, 1)]
    printed = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    assert printed[0][0].startswith("The last evaluation gave")
    assert not list((tmp_path / "1").glob("*"))  # The chief saves.
    assert train(tmp_path / "together", steps=2000, workers=2).returncode == 0
    one, other = last_checkpoint(tmp_path / "0"), last_checkpoint(tmp_path / "together")
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.parametrize("key", ["", "of this test"])
def test_ports_that_others_reach_without_a_key_are_warned_about(key, tmp_path):
    process = start_in_cluster(tmp_path, ["192.0.2.1:2222"], 0, key)  # Not of this machine.
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 2
    assert printed.count("can't listen at 192.0.2.1:2222") == 1
    warning = "AGENTS_CLUSTER_KEY is not set: whoever reaches 192.0.2.1:2222 can take part"
    assert printed.count(warning) == (not key)
    assert not list(tmp_path.iterdir())
