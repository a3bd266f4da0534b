"""Faults of environments in the command that trains: few lines that name the environment, exit code 1."""

import json
import re
import time

import pytest

from tests.faults.commands import Command
from tests.faults.figures import record

MAX_LINES = 12
ROLLOUT = 25
SETTINGS = [
    "--logdir=logs", "--config=default", "--env=tests.faults.troubled_env:Troubled-v0",
    "--num-envs=4", "--num-processes=2", f"--rollout-length={ROLLOUT}", "--minibatch-size=100",
    "--epochs=1", "--layers=4", "--eval-episodes=1", "--steps=1000", "--log-interval=1000",
    "--histogram-interval=0", "--eval-interval=1000", "--checkpoint-interval=500",
    "--step-timeout=4", "--start-timeout=20",
]  # fmt: skip
# Fault, call, number of the call, and what the message says. Environments are reset at the start
# and before evaluations; they make 125 steps until the first checkpoint.
FAULTS = [
    ("ValueError", "constructor", 1, "constructor raised ValueError: no luck"),
    ("a null pointer", "constructor", 1, "was killed by SIGSEGV"),
    ("ValueError", "step", 140, "step raised ValueError: no luck"),
    ("SIGKILL", "step", 140, "was killed by SIGKILL"),
    ("os._exit(7)", "reset", 1, "ended with exit code 7"),
    ("holds the GIL", "step", 140, "did not reply within 4 seconds"),
    ("NaN in the observation", "step", 140, r"returned nan at \[0\]"),
    ("NaN reward", "step", 140, "returned the reward nan"),
    ("observation of a smaller shape", "reset", 2, r"observation of shape \(1,\), expected Box"),
]


def run_command(fault, call, at, words, folder):
    """Trains in environments of which the first to get there has a fault.

    Returns:
      The number of lines on the console, and the seconds until the command ended.
    """
    folder.mkdir()
    kwargs = {"fault": fault, "call": call, "at": at, "once": str(folder / "once")}
    start = time.monotonic()
    with Command(folder, *SETTINGS, f"--env-kwargs={json.dumps(kwargs)}") as command:
        code = command.wait(600)
    seconds, printed = time.monotonic() - start, command.printed()
    lines = printed.splitlines()
    assert code == 1, printed
    assert re.search(words, printed), printed
    assert re.search(r"environment [0-3]\b.*process [0-9]+.*step [0-9]+", printed), printed
    assert len(lines) <= MAX_LINES, printed
    checkpoints = {int(path.stem.removeprefix("step-")) for path in folder.rglob("step-*.npz")}
    # Nothing of the iteration with the fault is in a checkpoint.
    assert all(step <= 4 * at for step in checkpoints) or call == "reset", checkpoints
    return len(lines), seconds


@pytest.mark.slow  # tests/scripts/test_train_command.py has a short one.
def test_faults_of_all_calls(tmp_path):
    counted = [run_command(*fault, tmp_path / str(index)) for index, fault in enumerate(FAULTS)]
    record(
        "faults of environments in train",
        cases=len(FAULTS),
        hangs=0,
        most_lines=max(lines for lines, _ in counted),
        longest_seconds=round(max(seconds for _, seconds in counted), 1),
    )
