import subprocess
import sys

import pytest

from agents.sweeps.sweep import Sweep
from agents.sweeps.trial_result import COMPLETE
from tests.sweeps.fake_training import new_sweep, train, train_trials

# From the third evaluation on, files can't grow: there is room for a part of a line.
FULL_DISK = """
import os, resource, sys
from agents.command_line.reports import run
from agents.scripts import sweep
from tests.sweeps import fake_training

def train(config, run):
    for index, score in enumerate(fake_training.train(config, run)):
        if index == 2:
            size = os.path.getsize(run.path.parent / "journal.jsonl") + 30
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        yield score

sweep.train = train
run(sweep.main, sys.argv[1:])
"""


def test_a_full_disk_ends_the_command_and_the_sweep_can_be_continued(tmp_path):
    whole, stopped = new_sweep(tmp_path), new_sweep(tmp_path)
    command = [f"--logdir={tmp_path}", f"--timestamp={stopped.timestamp}", "--trials=2"]
    process = subprocess.run(
        [sys.executable, "-c", FULL_DISK, *command], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert process.returncode == 2
    journal = stopped.path / "journal.jsonl"
    error, hint = process.stderr.splitlines()[-2:]
    assert error == f"error: can't write {journal}: File too large"
    assert hint.startswith("To continue: ") and all(option in hint for option in command)
    assert journal.read_bytes().endswith(b"}\n")
    # Processes that had opened it before can go on, too.
    for sweep in (stopped, Sweep(stopped.path)):
        assert [result.state for result in sweep.results()] == ["running"]
    train_trials(whole, 2, train)
    train_trials(stopped, 2, train)
    assert stopped.results() == whole.results()


@pytest.mark.parametrize("rest", ['{"op_code"', '{"op_code":"' + 10_000 * "x"])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_line_that_a_killed_process_left_unfinished_is_removed(tmp_path, rest, is_open):
    sweep = new_sweep(tmp_path)
    train_trials(sweep, 1, train)
    with (sweep.path / "journal.jsonl").open("a") as file:
        file.write(rest)
    sweep = sweep if is_open else Sweep(sweep.path)
    train_trials(sweep, 2, train)
    assert Sweep(sweep.path).results() == sweep.results()
    assert [result.state for result in sweep.results()] == [COMPLETE] * 2
