"""A run that is being trained is refused to a second process."""

import os
import statistics
import subprocess
import sys

import pytest

from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from tests.faults.commands import ROOT, kill
from tests.faults.figures import record

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
        arguments = ["--logdir=logs", f"--timestamp={run.timestamp}"]
        for _ in range(count):
            second = subprocess.run(
                [sys.executable, "-c", MAIN_SECONDS, *arguments],
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
