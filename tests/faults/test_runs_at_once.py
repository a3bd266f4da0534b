"""Runs that are started at once: each has a folder of its own, and no folder has two."""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import pytest

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from tests.faults.commands import ROOT, Command, kill, processes_with
from tests.faults.figures import record

SMALL = (
    "--config=default --num-envs=1 --rollout-length=64 --minibatch-size=64 --epochs=1 --layers=4 "
    "--eval-episodes=1 --checkpoint-interval=64 --log-interval=64 --histogram-interval=0 "
    "--env-backend=inline"
)
LOOP = """
for seed in $(seq {count}); do
  {python} -W ignore -m agents.scripts.train --logdir=logs {settings} --steps=64 --seed=$seed 2>stderr-$seed &
done
wait
"""


def run_loop(folder, count, to_the_end):
    """Starts `count` runs in one shell loop; returns their folders."""
    script = LOOP.format(count=count, python=sys.executable, settings=SMALL)
    shell = subprocess.Popen(
        ["sh", "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    logs, deadline = folder / "logs", time.monotonic() + 600
    try:
        if to_the_end:
            assert shell.wait(600) == 0
        while len(list(logs.glob("*/config.yaml"))) < count:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    return [RunDirectory.of(path) for path in sorted(logs.iterdir())]


def check_run(folder, run, to_the_end):
    """Checks that a folder belongs to one of the processes, and to nothing else."""
    # The process of a seed says where it trains, once it has made its environments.
    line = (folder / f"stderr-{run.load_config().seed}").read_text()
    assert f"Training in {run.path.absolute()};" in line
    assert run.lock_file.read_text().startswith("process ")
    names = {path.name for path in run.path.iterdir()}
    files = {"config.yaml", "spaces.json", "command.txt", "lock", "metrics.jsonl"}
    hyperparameters = {path.name for path in run.path.glob("events.out.tfevents.*")}
    assert names <= files | hyperparameters | {"checkpoints", "train", "eval"}
    assert len(hyperparameters) <= 1
    if to_the_end:
        assert [row["step"] for row in read_metrics(run.metrics_file)] == [64, 64]
        assert run.checkpoint("last").name == "step-64"
        assert len(list(run.train_events.iterdir())) == 1


@pytest.mark.slow  # tests/runs/test_run_directory.py has a short one.
def test_160_runs_of_shell_loops_have_folders_of_their_own(tmp_path, rounds=20, count=8):
    folders = 0
    for number in range(rounds):
        place = tmp_path / str(number)
        place.mkdir()
        runs = run_loop(place, count, to_the_end=number == 0)
        assert {run.load_config().seed for run in runs} == set(range(1, count + 1))
        for run in runs:
            check_run(place, run, to_the_end=number == 0)
        folders += len({run.path for run in runs})
        shutil.rmtree(place)
    record("runs started in one shell loop", rounds=rounds, runs=rounds * count, folders=folders)
    assert folders == rounds * count


HOLD = (
    "import sys, time; from agents.runs.run_directory import RunDirectory\n"
    "run = RunDirectory(sys.argv[1])\n"
    "with run.locked(run.load_config()): print(flush=True); time.sleep(600)"
)
MAIN_SECONDS = (
    "import sys, time; start, cpu = time.perf_counter(), time.process_time()\n"
    "from agents.scripts import train\n"
    "from agents.settings import reports\n"
    "try: reports.run(train.main)\n"
    "finally: print(time.perf_counter() - start, time.process_time() - cpu)"
)


@pytest.mark.slow  # tests/runs/test_run_lock.py has short ones.
def test_a_run_that_is_being_trained_is_refused_20_times(tmp_path, count=20):
    run = RunDirectory(tmp_path / "logs" / "20260131T120000-default")
    run.prepare(load_config("default"))
    (run.path / "notes").write_text("kept")
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, run.path],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    seconds, cpu = [], []
    try:
        owner.stdout.readline()
        before = sorted(run.path.rglob("*"))
        for _ in range(count):
            second = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    MAIN_SECONDS,
                    "--logdir=logs",
                    f"--timestamp={run.timestamp}",
                ],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
            )
            for times, text in zip((seconds, cpu), second.stdout.split(), strict=True):
                times.append(float(text))
            lines = second.stderr.splitlines()
            assert second.returncode == 2 and len(lines) <= 3, second.stderr
            assert f"process {owner.pid} on host {os.uname().nodename}" in lines[0]
            assert sorted(run.path.rglob("*")) == before
    finally:
        kill(owner)
        owner.stdout.close()
    median = statistics.median(seconds)
    record(
        "the same run started twice",
        cases=count,
        refused=count,
        median_seconds=round(median, 2),
        most_seconds=round(max(seconds), 2),
        most_processor_seconds=round(max(cpu), 2),
    )
    # Others that use the machine prolong the time that passes.
    assert statistics.median(cpu) < 1


@pytest.mark.slow
def test_of_two_processes_that_resume_a_run_at_once_one_is_refused(tmp_path):
    """Both are started at the same moment; the one that is refused names the other."""
    [run] = run_loop(tmp_path, 1, to_the_end=True)
    for number in range(1, 6):
        steps = 64 * (number + 1)
        arguments = ["--logdir=logs", f"--timestamp={run.timestamp}", f"--steps={steps}"]
        with Command(tmp_path, *arguments) as one, Command(tmp_path, *arguments) as other:
            codes = one.wait(), other.wait()
            assert sorted(codes) == [0, 2]
            refused, trained = (one, other) if codes[0] else (other, one)
            owner = re.search(r"process (\d+) on host", refused.printed())
            assert owner, refused.printed()
            assert int(owner[1]) == trained.process.pid
        assert [row["step"] for row in read_metrics(run.metrics_file)][-1] == steps
    assert processes_with(tmp_path) == []
