"""SIGKILL at random moments, half of them inside of a save: chains of kills and resumes."""

import contextlib
import os
import random
import re
import subprocess
import sys
import time

import pytest

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from tests.faults.commands import ROOT, Command, kill, processes_with
from tests.faults.figures import few_and_many, record
from tests.faults.plain_runs import INTERVAL
from tests.scripts.runs import events

SIZE = 100_000  # Columns of the largest array: files of 1.2 MB.


def wait_for_save(run, process, seconds=60):
    """Waits until a checkpoint is being written."""
    deadline = time.monotonic() + seconds
    while not any(name.endswith(".unfinished") for name in names_in(run.checkpoints)):
        assert process.poll() is None and time.monotonic() < deadline


def names_in(folder):
    return os.listdir(folder) if folder.is_dir() else []


def left_over(run):
    """Unfinished files, with what tells them from new ones of the same name."""
    found = set()
    for path in run.path.rglob("*"):
        if path.name.endswith((".unfinished", "_temp")):
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                found.add((path, status.st_ino, status.st_mtime_ns))
    return found


@few_and_many("count", 4, 100)
def test_processes_killed_while_they_save_resume(count, tmp_path):
    """Each resumes from the one before."""
    run = RunDirectory(tmp_path / "20260131T120000-default")
    draw, saved, in_save, with_remains, lost = random.Random(0), 0, 0, 0, []
    for case in range(count + 1):
        remains = left_over(run) if case else set()
        with_remains += bool(remains)
        with subprocess.Popen(
            [sys.executable, "-m", "tests.faults.saving_process", run.path, str(SIZE)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as process:
            try:
                word, step = process.stdout.readline().split()
                assert word == "resumed"
                # A checkpoint that was saved may not be reported yet.
                assert saved <= int(step) <= saved + INTERVAL
                lost.append(saved - int(step))
                assert not remains & left_over(run)
                if case == count:
                    break
                lines = [process.stdout.readline() for _ in range(draw.randrange(1, 4))]
                if case % 2:
                    time.sleep(draw.uniform(0, 0.05))
                else:
                    wait_for_save(run, process)
                    time.sleep(draw.uniform(0, 0.004))
                    in_save += 1
            finally:
                kill(process)
            lines += process.stdout.read().splitlines()
            saved = int(
                [line for line in lines if re.fullmatch(r"saved \d+\n?", line)][-1].split()[1]
            )
    assert processes_with(run.path) == []
    record(
        "SIGKILL of processes that save",
        kills=count,
        inside_a_save=in_save,
        left_unfinished_files=with_remains,
        resumes=count,
        most_steps_lost=max(lost),
        interval=INTERVAL,
        left_over=0,
    )


# Trainings.

STEPS = 50  # Of an iteration and of an interval of checkpoints.
SETTINGS = [
    "--config=pendulum", "--num-envs=2", "--rollout-length=25", "--minibatch-size=50", "--epochs=1",
    "--layers=400,400", "--eval-episodes=1", "--num-processes=1", f"--log-interval={STEPS}",
    f"--checkpoint-interval={STEPS}", "--histogram-interval=0", "--steps=100000000",
    "--eval-interval=1000",
]  # fmt: skip


@pytest.mark.slow
def test_killed_trainings_resume(tmp_path):
    """Trainings with worker processes; each resumes from the one before."""
    count = 100
    draw, run, last, trained, in_save, lost = random.Random(0), None, 0, 0, 0, []
    for case in range(count + 1):
        arguments = ["--logdir=logs", *SETTINGS]
        if run:
            arguments = ["--logdir=logs", f"--timestamp={run.timestamp}"]
            remains = left_over(run)
        with Command(tmp_path, *arguments) as command:
            command.wait_for_line("Training in")
            if run:
                command.wait_for_line("Resuming")
                step = int(re.search("from step ([0-9,]+)", command.printed())[1].replace(",", ""))
                assert step >= last
                lost.append(trained - step)
                assert not remains & left_over(run)
            else:
                [path] = (tmp_path / "logs").iterdir()
                run, step = RunDirectory(path), 0
            if case == count:
                break
            second = run.checkpoints / f"step-{step + 2 * STEPS}.npz"
            command.wait_for(second.exists)
            if case % 2:
                time.sleep(draw.uniform(0, 2))
            else:
                wait_for_save(run, command.process)
                time.sleep(draw.uniform(0, 0.02))
                in_save += 1
            kill(command.process)
        files = [name for name in names_in(run.checkpoints) if name.endswith(".npz")]
        last = max(int(name[5:-4]) for name in files)
        trained = max(row["step"] for row in read_metrics(run.metrics_file))
        deadline = time.monotonic() + 2
        while left := processes_with(tmp_path):
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
    steps = [row["step"] for row in read_metrics(run.metrics_file) if "losses/policy" in row]
    assert steps == list(range(STEPS, steps[-1] + 1, STEPS))
    tags = events(run.train_events)
    assert tags["losses/policy"] == steps
    record(
        "SIGKILL of trainings",
        kills=count,
        inside_a_save=in_save,
        resumes=count,
        most_steps_lost=max(lost),
        interval=STEPS,
        processes_left=0,
        left_over=0,
    )
    assert max(lost) <= STEPS
