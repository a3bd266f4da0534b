"""Signs of life of processes to their parents."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.workers import heartbeat
from agents.workers.heartbeat import HeartbeatMonitor

ROOT = Path(heartbeat.__file__).parents[2]
LIMIT = 2.0  # Seconds; forty beats.
CODE = """
import sys, time
from agents.workers import heartbeat
from agents.workers.heartbeat import report, start_heartbeat
heartbeat._BEAT_SECONDS = 0.05
start_heartbeat(int(sys.argv[1]))
report("about to " + sys.argv[2])
{}
"""


@pytest.fixture
def start():
    """Starts processes that run some code, with a monitor each."""
    started = []

    def start_process(code, limit=LIMIT):
        monitor = HeartbeatMonitor(limit)
        process = subprocess.Popen(
            [sys.executable, "-c", CODE.format(code), str(monitor.pipe), "run"],
            pass_fds=[monitor.pipe],
            cwd=ROOT,
        )
        monitor.started()
        started.append((process, monitor))
        return process, monitor

    yield start_process
    for process, monitor in started:
        process.kill()
        process.wait()
        monitor.close()


def wait_for(monitor, condition, seconds=30):
    """Polls until a condition is true; returns the lines, and the seconds that took."""
    lines, begin = [], time.monotonic()
    while not condition(lines) and time.monotonic() - begin < seconds:
        time.sleep(0.02)
        lines += monitor.poll()
    assert condition(lines)
    return lines, time.monotonic() - begin


def is_silent_after(monitor, seconds):
    """Whether a monitor calls its process silent within some seconds."""
    begin = time.monotonic()
    wait_for(monitor, lambda _: monitor.is_silent or time.monotonic() - begin > seconds)
    return monitor.is_silent


def test_a_process_that_runs_is_not_silent(start):
    _, monitor = start("while True: pass")
    assert not is_silent_after(monitor, 2 * LIMIT)


@pytest.mark.timing
def test_a_stopped_process_is_silent_until_it_goes_on(start, monkeypatch):
    process, monitor = start("time.sleep(100)")
    assert wait_for(monitor, bool)[0] == ["about to run"]
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(heartbeat, "_PAUSE_SECONDS", 0.5)
    time.sleep(LIMIT + 0.5)  # As if the parent was stopped: it does not poll.
    monitor.poll()
    assert not monitor.is_silent
    monkeypatch.undo()
    _, seconds = wait_for(monitor, lambda _: monitor.is_silent)
    assert seconds < LIMIT + 30
    process.send_signal(signal.SIGCONT)
    wait_for(monitor, lambda _: not monitor.is_silent)


def test_a_process_whose_interpreter_is_stuck_is_silent(start):
    _, monitor = start("import ctypes; ctypes.PyDLL(None).sleep(100)")  # Holds the GIL.
    wait_for(monitor, lambda _: monitor.is_silent)


def test_a_process_may_take_long_to_start(start):
    process, monitor = start("time.sleep(100)", limit=0.2)
    process.send_signal(signal.SIGSTOP)
    assert not is_silent_after(monitor, 2)


def test_what_a_process_reports_before_it_ends_is_read_afterwards(start):
    process, monitor = start(
        "report('lost'); report('found' * 100); os = __import__('os'); os._exit(0)"
    )
    process.wait(30)
    assert monitor.poll() == ["about to run", "lost", "found" * 100]
    assert monitor.poll() == []
