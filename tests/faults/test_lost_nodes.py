"""Nodes of a Ray cluster that die while learners train on them; short tests: `tests/distributed`."""

import contextlib
import importlib.util
import random
import time

import pytest

from agents.errors import LEARNER_LOST
from tests.distributed.ray_nodes import RayNodes
from tests.faults.commands import Command
from tests.faults.figures import record

LIMIT = 30.0  # Seconds until no process of a run is left.
SETTINGS = [
    "--config=cartpole", "--num-envs=4", "--rollout-length=50", "--minibatch-size=100",
    "--epochs=2", "--layers=8", "--eval-episodes=1", "--eval-interval=1000",
    "--checkpoint-interval=1000",
]  # fmt: skip


@pytest.fixture
def nodes(monkeypatch):
    with contextlib.closing(RayNodes()) as cluster:
        for name, value in cluster.variables.items():
            monkeypatch.setenv(name, value)
        yield cluster


def checkpoints(folder):
    return set(folder.glob("logs/*/checkpoints/step-*.npz"))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="the package ray is not installed"
)
def test_20_runs_that_have_lost_a_node_resume(nodes, tmp_path):
    moments, seconds, problems = random.Random(0), [], []
    for _ in range(20):
        nodes.add_second()
        runs = [path.name.partition("-")[0] for path in tmp_path.glob("logs/*")]
        given = [f"--timestamp={runs[0]}"] if runs else SETTINGS
        before = checkpoints(tmp_path)
        common = ["--logdir=logs", "--steps=100_000_000", "--cluster=ray", "--learners=2"]
        with Command(tmp_path, *common, *given) as command:
            assert command.wait_for(lambda: checkpoints(tmp_path) - before)  # noqa: B023
            time.sleep(moments.uniform(0.0, 1.0))
            nodes.kill_second()
            start = time.monotonic()
            code = command.wait()
            while nodes.processes() and time.monotonic() < start + 2 * LIMIT:
                time.sleep(0.05)
            seconds.append(time.monotonic() - start)
            errors = [line for line in command.printed().splitlines() if "error" in line]
            named = [line for line in errors if line.startswith("error: learner 1 on ")]
            if code != LEARNER_LOST or len(errors) != 1 or not named or seconds[-1] > LIMIT:
                problems.append(command.printed())
    record(
        "nodes of Ray: killed",
        cases=len(seconds),
        problems=len(problems),
        median_seconds_to_last_end=round(sorted(seconds)[10], 1),
        most_seconds_to_last_end=round(max(seconds), 1),
    )
    assert not problems, problems[0]
