"""SIGINT and SIGTERM during graph calls, in hung environments, evaluations and saves."""

import functools
import random
import re
import signal
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from agents.runs.checkpoint_files import write
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from tests.faults.commands import Command, processes_with
from tests.faults.figures import record

SIGNALS = [signal.SIGINT, signal.SIGTERM]
# Does nothing, but from the `at`-th step on an environment takes `seconds` for each.
MODULE = """
import sys, time
import gymnasium
import numpy as np
from gymnasium import spaces

class Slow(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, at, seconds):
        self.left, self.seconds = at, seconds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        self.left -= 1
        if self.left == 0:
            print("slow from now on", file=sys.stderr, flush=True)
        if self.left <= 0:
            time.sleep(self.seconds)
        return np.zeros(2, np.float32), 0.0, False, self.steps == 50, {}

gymnasium.register("Slow-v0", Slow)
"""
# Each environment makes 25 steps an iteration, 50 an evaluation.
SMALL = [
    "--config=default", "--env=slow_module:Slow-v0", "--num-envs=2", "--rollout-length=25",
    "--minibatch-size=50", "--epochs=1", "--layers=4", "--eval-episodes=1", "--num-processes=2",
    "--log-interval=1000000", "--checkpoint-interval=1000000", "--steps=100000000",
    "--histogram-interval=0",
]  # fmt: skip


# An iteration of more than 5 seconds, one program of XLA, which ends first.
GRAPH_CALL = [
    "--config=pendulum", "--env-backend=tf", "--num-envs=1024", "--rollout-length=1000",
    "--minibatch-size=1024", "--epochs=10", "--steps=1000000000", "--eval-episodes=1",
    "--eval-interval=1000000000", "--log-interval=1024000", "--checkpoint-interval=1000000000",
    "--histogram-interval=0", "--layers=16",
]  # fmt: skip
# All environments do not return from a step, each in a process of its own.
HUNG = [*SMALL, "--eval-interval=1000000", '--env-kwargs={"at": 90, "seconds": 60}']
# An evaluation takes 15 seconds; training does not notice.
EVALUATION = [*SMALL, "--eval-interval=50", '--env-kwargs={"at": 60, "seconds": 0.3}']
# Checkpoints of 25 megabytes are saved after each iteration.
SAVE = [
    *SMALL, "--eval-interval=1000000", '--env-kwargs={"at": -1, "seconds": 0}',
    "--layers=1000,1000", "--checkpoint-interval=50", "--env-backend=inline",
]  # fmt: skip


def wait_for_graph_call(command, run, draw):
    rows = command.wait_for(lambda: read_metrics(run.metrics_file), seconds=300)
    assert 1_024_000 / rows[0]["perf/steps_per_second"] > 5
    time.sleep(draw.uniform(0.3, 3))


def wait_for_hung_environments(command, run, draw):
    command.wait_for(lambda: command.printed().count("slow from now on") == 2)
    time.sleep(draw.uniform(0, 0.3))


def wait_for_evaluation(command, run, draw):
    command.wait_for_line("slow from now on")
    time.sleep(draw.uniform(0, 3))


def wait_for_save(command, run, draw):
    command.wait_for(lambda: list(run.checkpoints.glob("step-*.npz")))
    is_saving = functools.partial(run.checkpoints.glob, "step-*.unfinished")
    for _ in range(draw.randrange(1, 4)):
        command.wait_for(lambda: not list(is_saving()), pause=0.001)
        command.wait_for(lambda: list(is_saving()), pause=0.001)


def seconds_to_save(path):
    """How long it takes to write a checkpoint like this one, on the same disk."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if not name.startswith("@")}
    with tempfile.TemporaryDirectory(dir=path.parents[2]) as folder:
        start = time.perf_counter()
        write(Path(folder), 1, arrays, best=False)
        return time.perf_counter() - start


def stop(folder, arguments, wait, signum, draw):
    """Stops a training by a signal and checks how it ends.

    Returns:
      Its run; seconds until the final checkpoint is there beyond those to save it, and until the
      process has ended.
    """
    folder.mkdir()
    (folder / "slow_module.py").write_text(MODULE)
    with Command(folder, "--logdir=logs", *arguments, paths=[folder]) as command:
        command.wait_for_line("Training in")
        [path] = (folder / "logs").iterdir()
        run = RunDirectory(path)
        wait(command, run, draw)
        sent, seconds = command.stop(signum)
        lines = command.new_lines()
    assert command.process.returncode == 128 + signum, lines
    assert len(lines) <= 5 and lines[0].startswith(f"Received {signum.name}: training stops")
    last = run.checkpoint("last").with_suffix(".npz")  # Verified.
    resumed = re.search("^To resume from step ([0-9,]+): ", lines[-1])
    assert last.name == f"step-{resumed[1].replace(',', '')}.npz"
    assert not list(run.path.rglob("*.unfinished"))
    assert processes_with(folder) == []
    # A scheduled checkpoint that was just saved is the final one.
    late = max(0, last.stat().st_mtime - sent - seconds_to_save(last))
    return run, late, seconds


@pytest.mark.timing
@pytest.mark.slow  # tests/scripts/test_train_signals.py has short ones.
@pytest.mark.parametrize(("situation", "arguments", "wait"), [
    ("a graph call of 5 s", GRAPH_CALL, wait_for_graph_call),
    ("hung environments", HUNG, wait_for_hung_environments),
    ("an evaluation", EVALUATION, wait_for_evaluation),
    ("a save", SAVE, wait_for_save),
], ids=["GraphCall", "HungEnvironments", "LongEvaluation", "Save"])  # fmt: skip
def test_20_trainings_are_stopped_by_signals(situation, arguments, wait, tmp_path):
    """By both signals in turn; the first one is resumed."""
    late, seconds = [], []
    for case in range(20):
        folder = tmp_path / str(case)
        stopped, *times = stop(folder, arguments, wait, SIGNALS[case % 2], random.Random(case))
        late.append(times[0])
        seconds.append(times[1])
        if case == 0:
            step = int(stopped.checkpoint("last").name.removeprefix("step-"))
            resumed = ["--logdir=logs", f"--timestamp={stopped.timestamp}"]
            with Command(folder, *resumed, paths=[folder]) as command:
                command.wait_for_line(f"from step {step:,}")
    record(
        f"SIGINT and SIGTERM in {situation}",
        cases=len(late),
        final_checkpoints=len(late),
        median_seconds_to_checkpoint=round(statistics.median(late), 2),
        most_seconds_to_checkpoint=round(max(late), 2),
        median_seconds_to_exit=round(statistics.median(seconds), 2),
        most_seconds_to_exit=round(max(seconds), 2),
    )
    # Half a second and the rest of a graph call. Machines that do other work take longer.
    is_long = wait is wait_for_graph_call
    assert statistics.median(late) < 7.5 + 30 * is_long
    assert statistics.median(seconds) < 25 + 30 * is_long  # With saving and the end of TensorFlow.
