"""Several learners train as one: equal variables, the maths of one learner, any number resumes."""

import glob
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agents.graph.backend import make_backend
from agents.learning.reduction import SINGLE_LEARNER
from agents.settings.config_file import load_config
from agents.training.algorithms import find_algorithm
from agents.training.learner import Learner
from tests.distributed.learners import ROOT, free_addresses, run_together
from tests.fingerprint import fingerprint

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


def iterate(reducer, config):
    """Fingerprints of all variables after each of three iterations, and the weights at the end."""
    return iterate_learner(make_learner(config, reducer))


def iterate_learner(learner):
    fingerprints = []
    for _ in range(3):
        learner.iterate()
        fingerprints.append(fingerprint(learner.variables()))
    values = {name: variable.numpy().tolist() for name, variable in learner.variables().items()}
    report = learner.report()
    return fingerprints, values, {
        tag: report[tag] for tag in report if tag.startswith(("losses/", "schedule/", "episode/"))
    }  # fmt: skip


def iterate_all(reducer, config):
    """As `iterate`, for all `SETTINGS` one after another, and the gradients of the first minibatch."""
    results = [
        iterate(reducer, load_config("pendulum", **SMALL, **one)) for one in SETTINGS.values()
    ]
    return results, list_gradients(iterated(ONE_MINIBATCH, reducer))


ONE_MINIBATCH = {**SMALL, "minibatch_size": 64, "epochs": 1}


def iterated(settings, reducer=SINGLE_LEARNER):
    learner = make_learner(load_config("pendulum", **settings), reducer)
    learner.iterate()
    return learner


def list_gradients(learner):
    arrays = learner.arrays()
    return {tag: arrays[tag].tolist() for tag in arrays if tag.startswith("weight_gradients/")}


def test_all_variables_are_equal_on_all_learners_whatever_connects_them():
    shared = run_together(iterate_all, 2, "shared", **SMALL)
    collective = run_together(iterate_all, 2, "collective", **SMALL)
    (results, gradients), *others = shared + collective
    for fingerprints, _, _ in results:
        assert len(set(fingerprints)) == 3
    assert others == [[results, gradients]] * 3
    expected = list_gradients(iterated(ONE_MINIBATCH))  # Of the joined minibatch.
    assert len(expected) > 4 and gradients.keys() == expected.keys()
    for tag, gradient in expected.items():
        np.testing.assert_allclose(gradients[tag], gradient, atol=1e-6, err_msg=tag)


@pytest.mark.slow
def test_all_variables_are_equal_on_four_learners():
    (results, gradients), *others = run_together(iterate_all, 4, "collective", **SMALL)
    assert others == [[results, gradients]] * 3


@pytest.mark.parametrize(
    "settings", [{}, pytest.param(SETTINGS["recurrent"], id="recurrent", marks=pytest.mark.slow)]
)
def test_learners_follow_the_maths_of_one_with_all_environments(settings):
    # Minibatches are whole rollouts: those of several learners have other elements otherwise.
    # Adam's steps are as long for gradients that are nothing but rounding.
    settings = {**SMALL, **settings, "minibatch_size": 64, "optimizer": "sgd"}
    [(_, together, report), _] = run_together(iterate, 2, **settings)
    _, alone, expected = iterate_learner(make_learner(load_config("pendulum", **settings)))
    assert together.keys() == alone.keys()
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    for tag, number in expected.items():
        if not tag.startswith("schedule/"):
            np.testing.assert_allclose(report[tag], number, rtol=2e-3, atol=1e-4, err_msg=tag)


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


def train(logdir, *arguments, steps, learners):
    return subprocess.run(
        command(logdir, f"--learners={learners}", *arguments, steps=steps),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )


def start_in_cluster(logdir, variables, *arguments):
    """Starts one learner as a scheduler does."""
    return subprocess.Popen(
        command(logdir, *arguments, steps=2000),
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tf_config(addresses, rank):
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    return {"TF_CONFIG": json.dumps(cluster)}


def slurm(rank):
    """Variables that srun sets for two tasks on this machine, for a job of some number."""
    return {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURMD_NODENAME": "localhost",
    }


def checkpoint(logdir, step):
    [path] = glob.glob(f"{logdir}/*/checkpoints/step-{step}.npz")
    with np.load(path) as content:
        return {name: content[name] for name in content.files if not name.startswith("@run")}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """The folder of a run of two learners on this machine, and the process that has trained it."""
    folder = tmp_path_factory.mktemp("together")
    return folder, train(folder, steps=2000, learners=2)


def test_a_run_of_several_learners_is_as_any_other(together):
    tmp_path, process = together
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("The last evaluation gave")
    assert "learner 1" not in process.stderr  # One output.
    assert process.stderr.count("step 2,000: evaluation") == 1
    resumed = train(tmp_path, steps=2400, learners=1)
    assert resumed.returncode == 0, resumed.stderr
    assert "Resuming" in resumed.stderr


@pytest.mark.slow
def test_a_run_resumes_with_as_many_learners_as_if_it_had_never_stopped_and_with_others(tmp_path):
    for folder, steps in (("two", 4000), ("two", 8000), ("whole", 8000)):
        process = train(tmp_path / folder, steps=steps, learners=2)
        assert process.returncode == 0, process.stderr
    one, other = checkpoint(tmp_path / "two", 8000), checkpoint(tmp_path / "whole", 8000)
    assert one.keys() == other.keys() and len(one) > 20
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    for steps, learners in ((9600, 1), (11_200, 4)):
        resumed = train(tmp_path / "two", steps=steps, learners=learners)
        assert resumed.returncode == 0, resumed.stderr
        assert "Resuming" in resumed.stderr


def test_learners_that_do_not_divide_the_work_are_refused(tmp_path):
    process = train(tmp_path, steps=4000, learners=3)
    assert process.returncode == 2
    assert "3 learners do not divide num_envs 4" in process.stderr
    assert "expected 2 or 4 learners" in process.stderr
    assert len(process.stderr.splitlines()) <= 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scheduler", ["TF_CONFIG", "srun"])
def test_learners_that_a_scheduler_starts_train_as_those_of_one_command(
    scheduler, tmp_path, together
):
    addresses = free_addresses(2)
    processes = [
        start_in_cluster(
            tmp_path / str(rank),
            slurm(rank) if scheduler == "srun" else tf_config(addresses, rank),
        )
        for rank in (0, 1)
    ]
    printed = [process.communicate(timeout=600) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    assert printed[0][0].startswith("The last evaluation gave")
    assert printed[1] == ("", "")  # Nor does TensorFlow log anything.
    assert not list((tmp_path / "1").glob("*"))  # The chief saves.
    one, other = checkpoint(tmp_path / "0", 2000), checkpoint(together[0], 2000)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_learners_of_other_settings_are_refused(tmp_path):
    addresses = free_addresses(2)
    processes = [
        start_in_cluster(tmp_path, tf_config(addresses, rank), *["--entropy-coef=0.5"][:rank])
        for rank in (0, 1)
    ]
    for process in processes:
        _, printed = process.communicate(timeout=600)
        assert process.returncode == 2
        assert "learner 1 on 127.0.0.1: its entropy_coef is 0.5, the chief's is" in printed
        assert len(printed.splitlines()) <= 3
    assert not list(tmp_path.iterdir())


def test_a_learner_alone_waits_for_the_others_for_a_while(tmp_path):
    addresses = free_addresses(2)
    arguments = tf_config(addresses, 0), "--start-timeout=3"
    process = start_in_cluster(tmp_path, *arguments)
    _, printed = process.communicate(timeout=600)
    assert process.returncode == 2
    assert f"learner 1 at {addresses[1]} did not join within 3 s" in printed
    assert len(printed.splitlines()) <= 3 and not list(tmp_path.iterdir())


def test_public_addresses_are_refused_unless_the_network_is_trusted(tmp_path):
    cluster = tf_config(["10.0.0.1:2222", "8.8.8.8:2222"], 0)
    process = start_in_cluster(tmp_path, cluster)
    _, printed = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "8.8.8.8:2222 is a public address" in printed and "--trust-network" in printed
    trusting = start_in_cluster(tmp_path, cluster, "--trust-network", "--start-timeout=1")
    _, printed = trusting.communicate(timeout=600)
    assert trusting.returncode == 2 and "public" not in printed


def test_only_one_thing_starts_learners(tmp_path):
    process = start_in_cluster(tmp_path, slurm(0), "--learners=2")
    _, printed = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "--learners starts learners, and so does srun; use one" in printed
