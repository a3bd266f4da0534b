"""SIGKILLs of random workers while a batch steps and while an agent is trained, with restarts."""

import contextlib
import functools
import statistics
import threading
import time
import warnings

import numpy as np
import pytest

from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.settings.config_file import load_config
from agents.vector.process_batch import make_batch_env
from agents.vector.restarts import Restarter
from tests.faults.figures import record
from tests.faults.processes import holdings
from tests.faults.troubled_env import TroubledEnv

# Of the batch between two kills, on average: about half a second, in which a spare worker is ready.
STEPS_PER_KILL = 200
PAUSE = 0.002
MEDIAN_SECONDS = 5.0

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("spawner")]


class Killer(threading.Thread):
    """Kills random workers of a batch, each when the one before was restarted.

    Attributes:
      num_killed: Number of workers killed so far.
    """

    def __init__(self, batch, count):
        """Initializes the thread; `count` is the number of workers to kill."""
        super().__init__(daemon=True)
        self._batch, self._count = batch, count
        self._rng = np.random.default_rng(5)
        self.num_killed, self.stopped = 0, False

    def run(self):
        due = 0
        while self.num_killed < self._count and not self.stopped:
            time.sleep(PAUSE * self._rng.random())
            num_steps = self._batch._hosts[0]._steps
            if num_steps >= due and self._batch.restarts.count >= self.num_killed:
                host = self._batch._hosts[self._rng.integers(len(self._batch._hosts))]
                host.worker.kill()
                self.num_killed += 1
                due = num_steps + self._rng.integers(STEPS_PER_KILL // 2, 3 * STEPS_PER_KILL // 2)


@pytest.fixture
def seconds(monkeypatch):
    """How long each restart took, from the failure to the observation of the reset."""
    seconds = []
    restart = Restarter.restart

    def measure(self, failures):
        start = time.perf_counter()
        infos = restart(self, failures)
        seconds.append(time.perf_counter() - start)
        return infos

    monkeypatch.setattr(Restarter, "restart", measure)
    return seconds


def run_training(count, path, monkeypatch):
    """Kills workers during training; returns the last step and the number of kills."""
    batches, killers = [], []

    def collect(*args, **kwargs):
        batches.append(make_batch_env(*args, **kwargs))
        if len(batches) == 1:  # That of training, then that of evaluations.
            killers.append(Killer(batches[0], count))
            killers[0].start()
        return batches[-1]

    steps = (int(1.1 * count) + 5) * STEPS_PER_KILL * 2
    config = load_config(
        "default", env="tests.faults.troubled_env:Troubled-v0", env_kwargs={"pause": PAUSE},
        num_envs=2, num_processes=2, layers=(4,), rollout_length=100, minibatch_size=200, epochs=1,
        steps=steps, eval_interval=steps, eval_episodes=1, checkpoint_interval=steps // 10,
        log_interval=steps // 10, histogram_interval=0, env_restarts={"limit": 10**6},
    )  # fmt: skip
    run = RunDirectory(path / "20260101T000000-default")
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr("agents.vector.process_batch.make_batch_env", collect)
        for _ in train(config, run):
            pass
    killers[0].stopped = True
    killers[0].join(60)
    last = int(run.checkpoint("last").name.removeprefix("step-").removesuffix(".npz"))
    assert last >= steps
    return killers[0].num_killed


def check(num_killed, seconds, before, name):
    more = holdings().more_than(before)
    record(
        name,
        kills=num_killed,
        median_restart_ms=round(1000 * statistics.median(seconds), 1),
        longest_restart_ms=round(1000 * max(seconds), 1),
        more_children=more.get("children", 0),
        more_descriptors=more.get("descriptors", 0),
        more_segments=more.get("segments", 0),
    )
    assert len(seconds) >= num_killed and not more
    assert statistics.median(seconds) <= MEDIAN_SECONDS


def run_batch(count):
    """Kills workers of a batch that is stepped; returns the number of kills."""
    makers = [functools.partial(TroubledEnv, pause=PAUSE)] * 2
    batch = make_batch_env(makers, 2, timeout=30, restart_limit=10**6)
    with contextlib.closing(batch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch.reset(seed=0)
        killer = Killer(batch, count)
        killer.start()
        while batch.restarts.count < count:
            observ, *_ = batch.step(np.zeros(2, int))
            assert observ.shape == (2, 2)
    return killer.num_killed


def test_kills_while_a_batch_steps(seconds):
    before = holdings()
    assert run_batch(5) == 5
    check(5, seconds, before, "SIGKILLs of workers of a batch")


@pytest.mark.slow
def test_kills_during_training(seconds, tmp_path, monkeypatch):
    run_training(1, tmp_path / "warm_up", monkeypatch)  # TensorFlow opens files and starts threads.
    seconds.clear()
    before = holdings()
    assert run_training(1000, tmp_path, monkeypatch) == 1000
    check(1000, seconds, before, "SIGKILLs of random workers during training")
