"""Disks that are full for a while: nothing is lost, training continues, a failure is one line."""

import collections
import contextlib
import re
import shutil
import warnings

import numpy as np
import pytest

from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from tests.faults.figures import record
from tests.faults.tiny_trainings import UPDATE, UPDATES, make_config, never_stopped, values
from tests.runs.conftest import small_disk  # noqa: F401 - A fixture.
from tests.scripts.runs import events, rows


class Disk:
    """A small disk with a file that takes all the space there is, while it is full."""

    def __init__(self, folder):
        self._file, self.times_full = folder / "fill", 0

    def fill(self):
        with contextlib.suppress(OSError), self._file.open("wb", 0) as file:
            for size in (4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))
        self.times_full += 1

    def free(self):
        self._file.unlink()


def continue_training(config, run, disk, changes, stop=None):
    """Trains; fills and frees the disk after evaluations, by their numbers, and stops after one."""
    training = train(config, run)
    for number, _ in enumerate(training):
        for change in changes.get(number, ()):
            getattr(disk, change)()
        if number == stop:
            break
    training.close()


def check_lines(lines, times_full):
    """Checks that every failure is one line; returns how many saves and appends failed."""
    assert all(len(line.splitlines()) == 1 for line in lines)
    saves = [line for line in lines if "could not be saved" in line]
    files = [re.search(r"can't write \S*?(metrics|train|eval)", line) for line in lines]
    appends = collections.Counter(match[1] for match in files if match)
    # What a process that ends on a full disk still had to write; the resumed training writes it.
    lost = [line for line in lines if re.match(r"\d+ records of \S* could not be written", line)]
    assert len(saves) + appends.total() + len(lost) == len(lines), lines
    assert len(set(saves)) == len(saves) and max(appends.values()) <= times_full
    assert len({line.split(" of ")[1] for line in lost}) == len(lost)
    return len(saves), appends.total()


def check_complete(run, reference):
    """Checks that a run has all that one on a large disk has."""
    assert rows(run) == rows(reference)
    for folder in ("train_events", "eval_events"):
        assert events(getattr(run, folder)) == events(getattr(reference, folder))
    last = UPDATE * UPDATES
    ours, theirs = values(run, last), values(reference, last)
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"run%2Fbest"}:  # A best checkpoint that failed does not count.
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert not list(run.path.rglob("*.unfinished"))


def run_on(disk_folder, seed):
    """Trains on a disk that is full twice, is stopped while it is, and resumed on the full disk."""
    disk, config = Disk(disk_folder), make_config("inline", seed)
    run = RunDirectory(disk_folder / f"run-{seed}")
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always", UserWarning)
        # 15 evaluations, every second update; a checkpoint every fifth.
        continue_training(config, run, disk, {3: ["fill"], 6: ["free"], 9: ["fill"]}, stop=10)
        # From update 15 on, or a later one whose checkpoint there was room for.
        continue_training(config, run, disk, {1: ["free"]})
    lines = [str(one.message) for one in issued if "truncates episodes" not in str(one.message)]
    # The files are opened again by the process that resumes.
    failed = check_lines(lines, disk.times_full + 1)
    check_complete(run, never_stopped("inline", seed))
    shutil.rmtree(run.path)
    return failed


@pytest.mark.slow  # tests/runs has full disks under each kind of file.
def test_a_full_disk_loses_nothing(small_disk):  # noqa: F811
    failed = [run_on(small_disk, seed) for seed in range(1, 6)]
    saves, appends = (sum(counts) for counts in zip(*failed, strict=True))
    record(
        "full disk at checkpoints, events, metrics and while resuming",
        trainings=len(failed),
        failed_saves=saves,
        failed_appends=appends,
        lines=saves + appends,
        lost=0,
    )
    assert saves and appends
