"""Stop signals during training, with real processes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agents
from agents.runs.run_directory import RunDirectory

SMALL = [
    "--config=default", "--num-envs=2", "--rollout-length=25", "--minibatch-size=50", "--epochs=1",
    "--layers=4", "--eval-episodes=1", "--num-processes=1", "--log-interval=1000000",
    "--checkpoint-interval=1000000", "--steps=1000000", "--histogram-interval=0",
]  # fmt: skip
# Each environment makes 25 steps an iteration, 50 an evaluation.
HANGING = """
import sys, time
import gymnasium
import numpy as np
from gymnasium import spaces

class Hanging(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, hang_at, render_mode=None):
        self.left, self.render_mode = hang_at, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        self.left -= 1
        if self.left == 0:
            print("hanging", file=sys.stderr, flush=True)
            time.sleep(600)
        return np.zeros(2, np.float32), 0.0, False, self.steps == 50, {}

gymnasium.register("Hanging-v0", Hanging)
"""
# Rendering takes forever.
SLOW_TO_DRAW = """
    metadata = {"render_modes": ["rgb_array"]}

    def render(self):
        print("drawing", file=sys.stderr, flush=True)
        time.sleep(600)
"""


def start(folder, arguments, line):
    """Starts training and waits until it prints a line that begins with `line`."""
    head, register = HANGING.rsplit("\n\n", 1)
    (folder / "hanging.py").write_text(HANGING)
    (folder / "drawn.py").write_text(f"{head}\n{SLOW_TO_DRAW}\n{register}")
    process = subprocess.Popen(
        [sys.executable, "-m", "agents.scripts.train", "--logdir=logs", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(agents.__file__).parents[1])},
    )
    while not (read := process.stderr.readline()).startswith(line):
        assert read, process.wait()
    return process


def stop(process, signum):
    """Sends a signal; returns the lines printed since, and when the process had ended."""
    sent = time.time()
    process.send_signal(signum)
    try:
        _, printed = process.communicate(timeout=300)
    finally:
        process.kill()
    return printed.splitlines(), time.time() - sent, sent


def check_stopped(process, folder, signum, steps):
    """Checks how a run stops after a signal, and that its final checkpoint is of one of `steps`."""
    lines, seconds, sent = stop(process, signum)
    assert process.returncode == 128 + signum, lines
    assert len(lines) <= 5 and "Interrupted." in lines and "Traceback" not in " ".join(lines)
    assert lines[0].startswith(f"Received {signal.Signals(signum).name}: training stops")
    resumed = re.search("^To resume from step ([0-9,]+): .*-m agents.scripts.train ", lines[-1])
    assert resumed, lines
    assert steps is None or int(resumed[1].replace(",", "")) in steps
    [path] = (folder / "logs").iterdir()
    saved = max(file.stat().st_mtime for file in (path / "checkpoints").rglob("step-*"))
    assert saved - sent < 60  # Half a second on an idle machine.
    assert f"--timestamp={RunDirectory(path).timestamp}" in lines[-1]
    return seconds


HANG = ["--env=hanging:Hanging-v0", '--env-kwargs={"hang_at": 90}', "--eval-interval=1000000"]


@pytest.mark.timing
def test_training_with_a_hung_environment_stops(tmp_path):
    process = start(tmp_path, [*SMALL, *HANG], "hanging")
    assert check_stopped(process, tmp_path, signal.SIGTERM, [150]) < 120


def test_a_second_signal_ends_training_with_a_hung_environment_in_its_process(tmp_path):
    arguments = [*SMALL, *HANG, "--env-backend=inline", "--checkpoint-interval=50"]
    process = start(tmp_path, arguments, "hanging")
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("Received SIGINT: training stops")
    lines, _, _ = stop(process, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGINT and lines == []
    [path] = (tmp_path / "logs").iterdir()
    assert RunDirectory(path).checkpoint("last").name == "step-150"


@pytest.mark.timing
def test_drawing_a_frame_strip_stops(tmp_path):
    arguments = ["--env=drawn:Hanging-v0", '--env-kwargs={"hang_at": -1}', "--steps=100"]
    process = start(tmp_path, [*SMALL, *arguments], "drawing")
    assert check_stopped(process, tmp_path, signal.SIGINT, [100]) < 120


@pytest.mark.timing
def test_a_signal_while_tensorflow_starts_leaves_nothing_behind(tmp_path):
    env = ["--env=hanging:Hanging-v0", '--env-kwargs={"hang_at": -1}', "--eval-interval=1000000"]
    process = start(tmp_path, [*SMALL, *env], "Training in")
    lines, seconds, _ = stop(process, signal.SIGTERM)
    assert process.returncode == 143 and seconds < 120
    assert (
        lines[-1] == "The run has no checkpoint to resume from: start a new one."
        and len(lines) <= 3
    )
    assert not (tmp_path / "logs").exists()


# Becomes the terminal's foreground process, as commands of a shell are.
IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_a_terminal_that_is_closed_stops_training_with_a_checkpoint(tmp_path):
    (tmp_path / "hanging.py").write_text(HANGING)
    env = ["--env=hanging:Hanging-v0", '--env-kwargs={"hang_at": -1}', "--eval-interval=1000"]
    command = ["-m", "agents.scripts.train", "--logdir=logs", *SMALL, "--steps=100000000", *env]
    terminal, other_end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL, *command],
        **dict.fromkeys(("stdin", "stdout", "stderr"), other_end),
        start_new_session=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(agents.__file__).parents[1])},
    )
    os.close(other_end)
    try:
        printed = b""
        while b"step 1,000: evaluation" not in printed:
            printed += os.read(terminal, 4096)
        os.close(terminal)
        assert process.wait(300) == 128 + signal.SIGHUP
    finally:
        process.kill()
    [path] = (tmp_path / "logs").iterdir()
    assert RunDirectory(path).checkpoint("last")
