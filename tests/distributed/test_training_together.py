"""Several learners train as one: equal variables, the maths of one learner, any number resumes."""

import glob
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agents.errors import UsageError
from agents.graph.backend import make_backend
from agents.learning.reduction import SINGLE_LEARNER
from agents.scripts.train import main
from agents.settings.config_file import load_config
from agents.training.find_algorithm import find_algorithm
from agents.training.learner import Learner
from tests.distributed.learners import ROOT, free_addresses, run_together
from tests.fingerprint import fingerprint

SMALL = {
    "env_backend": "tf", "num_envs": 4, "rollout_length": 16, "minibatch_size": 16, "epochs": 2,
    "layers": (8,), "eval_episodes": 1,
}  # fmt: skip
# Minibatches are whole rollouts: those of several learners have other elements otherwise. Adam's
# steps are as long for gradients that are nothing but rounding.
WHOLE = {"minibatch_size": 64, "optimizer": "sgd"}
RECURRENT = {"recurrent": "gru", "recurrent_units": 3, "sequence_length": 4}
# Everything that learners agree on, and state of single environments.
SETTINGS = {
    "feed-forward": {
        "normalize_value": True, "objective": "clip_kl", "learning_rate_schedule": "kl",
        "kl_stop": 0.05, "noise_correlation": 0.5,
    },
    "recurrent": RECURRENT,
    "weights once an epoch": {"reduce_every": "epoch", "critic_learning_rate": 1e-3},
    "whole": WHOLE,
}  # fmt: skip


def iterate(reducer, settings):
    """What is learned in three iterations: fingerprints of all variables after each, gradients of
    the first one's last minibatch, values and a report at the end.
    """
    config = load_config("pendulum", **{**SMALL, **settings})
    backend = make_backend(config)
    envs = backend.make(backend.check(), config.num_envs // reducer.num_learners, training=True)
    learner = Learner(envs, None, find_algorithm(config.algorithm), config, reducer)
    learner.begin_episodes()
    fingerprints, gradients = [], {}
    for number in range(3):
        learner.iterate()
        fingerprints.append(fingerprint(learner.variables()))
        if number == 0 and "reduce_every" not in settings:  # Gradients of each learner's own.
            arrays = learner.arrays()
            tags = [tag for tag in arrays if tag.startswith("weight_gradients/")]
            gradients = {tag: arrays[tag].tolist() for tag in tags}
    values = {name: variable.numpy().tolist() for name, variable in learner.variables().items()}
    report = learner.report()
    kept = [tag for tag in report if tag.startswith(("losses/", "schedule/", "episode/"))]
    return fingerprints, gradients, values, {tag: report[tag] for tag in kept}


def iterate_all(reducer, config):
    """As `iterate`, for all `SETTINGS` one after another."""
    return {name: iterate(reducer, one) for name, one in SETTINGS.items()}


def iterate_recurrent(reducer, config):
    return iterate(reducer, {**RECURRENT, **WHOLE})


def check_maths(together, settings):
    """Compares what several learners have learned with what one learns in all environments."""
    _, gradients, values, report = together
    _, own_gradients, own_values, own_report = iterate(SINGLE_LEARNER, settings)
    assert gradients.keys() == own_gradients.keys() and len(gradients) > 4
    for tag, gradient in own_gradients.items():
        np.testing.assert_allclose(gradients[tag], gradient, atol=1e-6, err_msg=tag)
    assert values.keys() == own_values.keys()
    for name, value in own_values.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    for tag, number in own_report.items():
        if not tag.startswith("schedule/"):
            np.testing.assert_allclose(report[tag], number, rtol=2e-3, atol=1e-4, err_msg=tag)


def test_learners_are_equal_and_follow_the_maths_of_one_whatever_connects_them():
    shared = run_together(iterate_all, 2, "shared", **SMALL)
    first, *others = shared + run_together(iterate_all, 2, "collective", **SMALL)
    assert others == [first] * 3
    for fingerprints, *_ in first.values():
        assert len(set(fingerprints)) == 3
    check_maths(first["whole"], WHOLE)


@pytest.mark.slow
def test_all_variables_are_equal_on_four_learners():
    first, *others = run_together(iterate_all, 4, "collective", **SMALL)
    assert others == [first] * 3


@pytest.mark.slow
def test_learners_with_memory_follow_the_maths_of_one():
    check_maths(run_together(iterate_recurrent, 2, **SMALL)[0], {**RECURRENT, **WHOLE})


# Commands.


def command(logdir, *arguments, steps):
    resumed = [path.name.partition("-")[0] for path in Path(logdir).glob("*")]
    new = ["--config=pendulum", "--env-backend=tf", "--num-envs=4", "--minibatch-size=100"]
    return [
        *(sys.executable, "-m", "agents", "train", f"--logdir={logdir}", f"--steps={steps}"),
        *([f"--timestamp={resumed[0]}"] if resumed else new),
        *("--learning-rate-schedule=constant", "--eval-episodes=2", "--eval-interval=4000"),
        *("--checkpoint-interval=2000", *arguments),
    ]


def start(logdir, *arguments, steps, **variables):
    return subprocess.Popen(
        command(logdir, *arguments, steps=steps),
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def train(logdir, *arguments, steps):
    """Trains to the end; returns the output and the messages."""
    process = start(logdir, *arguments, steps=steps)
    printed = process.communicate(timeout=600)
    assert process.returncode == 0, printed
    return printed


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


def assert_equal_checkpoints(one, other):
    assert one.keys() == other.keys() and len(one) > 20
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_a_run_of_several_learners_is_as_any_other_whatever_starts_them(tmp_path, capsys):
    """By one command, and by a scheduler; one learner resumes it."""
    output, messages = train(tmp_path / "together", "--learners=2", steps=2000)
    assert output.startswith("The last evaluation gave")
    assert " -m agents visualize " in output  # The command that was called.
    assert "learner 1" not in messages  # One output.
    assert messages.count("step 2,000: evaluation") == 1
    processes = [start(tmp_path / f"srun-{rank}", steps=2000, **slurm(rank)) for rank in (0, 1)]
    printed = [process.communicate(timeout=600) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    assert printed[0][0].startswith("The last evaluation gave")
    assert printed[1] == ("", "Starting learner 1 of 2\n")  # Nor does TensorFlow log anything.
    assert not list((tmp_path / "srun-1").glob("*"))  # The chief saves.
    one, other = checkpoint(tmp_path / "srun-0", 2000), checkpoint(tmp_path / "together", 2000)
    assert_equal_checkpoints(one, other)
    main(command(tmp_path / "together", steps=2400)[4:])
    assert "from step 2,000\n" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_resumes_with_as_many_learners_as_if_it_had_never_stopped_and_with_others(tmp_path):
    for folder, steps in (("two", 4000), ("two", 8000), ("whole", 8000)):
        train(tmp_path / folder, "--learners=2", steps=steps)
    one, other = checkpoint(tmp_path / "two", 8000), checkpoint(tmp_path / "whole", 8000)
    assert_equal_checkpoints(one, other)
    for steps, learners in ((9600, 1), (11_200, 4)):
        assert "Resuming" in train(tmp_path / "two", f"--learners={learners}", steps=steps)[1]


def tf_config(*addresses):
    cluster = {"worker": list(addresses)}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})}


@pytest.mark.parametrize(("variables", "arguments", "message"), [
    ({}, ["--learners=3"], "3 learners do not divide num_envs 4.*\nexpected 2 or 4 learners"),
    (slurm(0), ["--learners=2"], "--learners and srun both start learners; use one of them"),
    (tf_config("10.0.0.1:2222", "8.8.8.8:2222"), [],
     "8.8.8.8:2222 is a public address(.|\n)*--trust-network"),
])  # fmt: skip
def test_learners_that_can_not_train_are_refused_at_once(
    variables, arguments, message, tmp_path, monkeypatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        main(command(tmp_path, *arguments, steps=4000)[4:])
    assert not list(tmp_path.iterdir())


def test_a_learner_alone_waits_for_the_others_for_a_while(tmp_path):
    cluster = tf_config(*free_addresses(1), "8.8.8.8:2222")
    process = start(tmp_path, "--start-timeout=3", "--trust-network", steps=4000, **cluster)
    _, messages = process.communicate()
    assert process.returncode == 2
    assert "learner 1 at 8.8.8.8:2222 did not join within 3 s" in messages
    first, *lines = messages.splitlines()
    assert first == "Starting learner 0 of 2" and len(lines) <= 3
    assert not list(tmp_path.iterdir())
