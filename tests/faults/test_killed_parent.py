"""A program that is killed leaves no processes, whatever its workers are doing."""

import contextlib
import os
import signal
import subprocess
import sys

from tests.faults.commands import ROOT
from tests.faults.figures import few_and_many, record
from tests.faults.processes import still_running

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SECONDS = 2.0


@contextlib.contextmanager
def launcher():
    """Yields a process that starts `tests.faults.parent` programs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.parent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def kill_a_parent(process, signum):
    """Kills one; returns the ids of its processes that run after two seconds, and the time."""
    process.stdin.write("\n")
    process.stdin.flush()
    pids = list(map(int, process.stdout.readline().split()))
    assert len(pids) == 10
    os.kill(pids[0], signum)
    left, seconds = still_running(pids, SECONDS)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    code = int(process.stdout.readline().removeprefix("ended "))
    assert code in (-signum, 1), code  # An interrupt is an exception.
    return left, seconds


@few_and_many("count", 1, 50)
def test_killed_parents(count):
    left, longest = [], 0.0
    with launcher() as process:
        for signum in count * SIGNALS:
            remaining, seconds = kill_a_parent(process, signum)
            left += remaining
            longest = max(longest, seconds)
    record(
        "parent killed, workers idle, asleep, holding the GIL, with grandchildren",
        kills=count * len(SIGNALS),
        signals=", ".join(signum.name for signum in SIGNALS),
        left=len(left),
        longest_seconds=round(longest, 2),
    )
    assert left == []
