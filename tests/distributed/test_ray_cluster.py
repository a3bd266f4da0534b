"""Learners on the nodes of a Ray cluster: they train as those of one machine, and nodes may die."""

import functools
import glob
import importlib.util
import os
import re
import signal
import time
from pathlib import Path

import pytest

from agents.errors import LEARNER_LOST
from tests.distributed.ray_nodes import RayNodes
from tests.distributed.test_training_together import assert_equal_checkpoints, checkpoint
from tests.faults.commands import Command
from tests.faults.lost_learners import children

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="the package ray is not installed"
)

# A module of users, which lies in the working folder.
TOY = """
import gymnasium
import numpy as np


class Toy(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, [2], np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, [1], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observ(), {}

    def step(self, action):
        return self._observ(), -abs(float(action[0])), False, False, {}

    def _observ(self):
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)


gymnasium.register("OnRayToy-v0", Toy, max_episode_steps=20)
"""
SETTINGS = [
    "--env=on_ray_toy:OnRayToy-v0", "--env-backend=inline", "--num-envs=4", "--rollout-length=50",
    "--minibatch-size=100", "--epochs=2", "--layers=8", "--eval-episodes=1",
    "--eval-interval=1000", "--checkpoint-interval=1000",
]  # fmt: skip
ENDLESS = "--steps=100_000_000"


@pytest.fixture(scope="module")
def cluster():
    nodes = RayNodes()
    yield nodes
    nodes.close()


@pytest.fixture
def nodes(cluster, monkeypatch):
    """The cluster with both nodes, on which commands leave nothing behind."""
    for name, value in cluster.variables.items():
        monkeypatch.setenv(name, value)
    cluster.add_second()
    yield cluster
    assert is_true_soon(lambda: not cluster.processes())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "on_ray_toy.py").write_text(TOY)
    return tmp_path


def train(folder, *arguments, logdir="logs"):
    """Starts a training, or resumes it."""
    runs = glob.glob(f"{folder}/{logdir}/*")
    given = [f"--timestamp={Path(runs[0]).name.split('-')[0]}"] if runs else SETTINGS
    return Command(folder, f"--logdir={logdir}", *given, *arguments)


def train_on_ray(folder, *arguments):
    return train(folder, "--cluster=ray", "--learners=2", *arguments)


def last_step(folder):
    """The steps of the last checkpoint; 0 if there is none."""
    paths = glob.glob(f"{folder}/logs/*/checkpoints/step-*.npz")
    return max((int(Path(path).stem.split("-")[1]) for path in paths), default=0)


def wait_for_checkpoint(folder, command):
    """Waits until another one is complete."""
    before = last_step(folder)
    assert command.wait_for(lambda: last_step(folder) > before), command.printed()


def is_true_soon(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_after_the_death_of_a_node_training_continues_on_the_others(nodes, folder):
    with train_on_ray(folder, ENDLESS, "--restarts=1") as command:
        wait_for_checkpoint(folder, command)
        nodes.kill_second()
        command.wait_for_line("Starting 1 learner again")
        wait_for_checkpoint(folder, command)
        command.stop(signal.SIGINT)
        assert command.process.returncode == 130
        assert re.search(rf"error: learner 1 .*{nodes.host}.*", command.printed())


def test_too_few_nodes_are_an_error_and_no_wait_for_ever(nodes, folder):
    arguments = ["--cluster=ray", "--learners=4", "--start-timeout=4"]
    with train(folder, *arguments) as command:
        assert command.wait() == 2
        *_, error, need, there = command.printed().splitlines()
    # Ray may take longer to start those that there is place for.
    assert re.fullmatch("error: Ray has place for [012] of 4 learners", error)
    assert "each learner needs 1 CPU" in need
    assert "nodes: 2, in total with 2 CPU of which" in there
    assert not glob.glob(f"{folder}/logs/*")


# Longer ones.


@pytest.mark.slow
def test_learners_on_two_nodes_learn_the_same_as_those_of_one_machine(nodes, folder):
    with train_on_ray(folder, "--steps=2000") as command:
        assert command.wait() == 0, command.printed()
        assert f"Learners on {nodes.host}, {nodes.host}\n" in command.printed()
        assert "learner 1:" not in command.printed()  # One output.
    with train(folder, "--learners=2", "--steps=2000", logdir="local") as command:
        assert command.wait() == 0, command.printed()
    one, other = (checkpoint(f"{folder}/{logdir}", 2000) for logdir in ("logs", "local"))
    assert_equal_checkpoints(one, other)
    with train(folder, "--steps=2400") as command:  # Without Ray.
        assert command.wait() == 0, command.printed()
        assert "from step 2,000" in command.printed()
    assert last_step(folder) == 2400


def end_actor(nodes):
    [pid] = nodes.processes("LearnerActor.run")
    os.kill(pid, signal.SIGKILL)


def end_learner(nodes, signum=signal.SIGKILL):
    [actor] = nodes.processes("LearnerActor.run")
    [learner] = [learner for reaper in children(actor) for learner in children(reaper)]
    os.kill(learner, signum)


def stop_learner(nodes):
    end_learner(nodes, signal.SIGSTOP)


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("end", [end_actor, end_learner, stop_learner])
def test_without_restarts_a_lost_learner_ends_the_training(nodes, folder, end):
    """tests/faults/test_lost_nodes.py ends nodes."""
    with train_on_ray(folder, ENDLESS) as command:
        wait_for_checkpoint(folder, command)
        end(nodes)
        assert command.wait(120) == LEARNER_LOST
        printed = command.printed()
    assert len(re.findall("error: ", printed)) == 1
    assert re.search(rf"error: learner 1 on {re.escape(nodes.host)} .*\n", printed)
    assert re.search("To resume from step .* --learners=2 --cluster=ray", printed)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_a_checkpoint_and_ends_all(nodes, folder, signum):
    with train_on_ray(folder, ENDLESS) as command:
        wait_for_checkpoint(folder, command)
        command.stop(signum)
        assert command.process.returncode == 128 + signum
        assert f"To resume from step {last_step(folder):,}" in command.printed()


@pytest.mark.slow
def test_nothing_survives_a_killed_command(nodes, folder):
    with train_on_ray(folder, ENDLESS) as command:
        wait_for_checkpoint(folder, command)
        assert nodes.processes()
        command.process.kill()
        assert is_true_soon(lambda: not nodes.processes())


@pytest.mark.slow
def test_all_ends_with_the_head_of_the_cluster(folder, monkeypatch):
    nodes = RayNodes(RAY_gcs_rpc_server_reconnect_timeout_s="5")  # By default 60.
    for name, value in nodes.variables.items():
        monkeypatch.setenv(name, value)
    try:
        nodes.add_second()
        with train_on_ray(folder, ENDLESS, "--restarts=1") as command:
            wait_for_checkpoint(folder, command)
            nodes.kill_head()
            assert command.wait() == 1
            assert "GCS may have been killed" in command.printed()
        assert is_true_soon(lambda: not nodes.processes())
    finally:
        nodes.close()


@pytest.mark.slow
def test_a_signal_while_places_are_looked_for_ends_the_command(nodes, folder):
    with train(folder, "--cluster=ray", "--learners=4", "--start-timeout=600") as command:
        command.wait_for_line("Waiting up to")
        command.stop(signal.SIGINT)
        assert command.process.returncode == 130
        assert "Interrupted." in command.printed()


@pytest.mark.slow
def test_without_a_cluster_ray_runs_on_this_machine_as_long_as_the_training(
    nodes, folder, monkeypatch
):
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("RAY_AUTH_MODE")
    is_ray = functools.partial(nodes.processes, "gcs_server", "raylet")
    before = set(is_ray())
    with train(folder, "--cluster=ray", "--steps=1000") as command:
        assert command.wait() == 0, command.printed()
        assert "Learners on 127.0.0.1\n" in command.printed()
    assert is_true_soon(lambda: set(is_ray()) == before)
    assert not (folder / ".ray").exists()  # No token, as Ray writes otherwise.
