import subprocess
import sys
import time

import pytest

from benchmarks.clock_process import Program, watch

PROGRAM = """
import os, sys, time
from benchmarks.episode_lines import episode_line
print("SPS: 20", file=sys.stderr)
print(episode_line(100, -1.5))
print("global_step=200, episodic_return=[-2.5e1]")  # As CleanRL prints arrays.
open("a file", "w").write("in a folder of its own")
"""


def python(code, **variables):
    return Program([sys.executable, "-c", code], variables)


def test_episodes_are_read_while_the_program_runs():
    code = f"{PROGRAM}\ntime.sleep(1.0); print(episode_line(300, 3.0)); sys.exit(0)"
    first, second, third = watch(python(code), clock=60.0)
    assert first[1:] == (100, -1.5) and second[1:] == (200, -25.0) and third[1:] == (300, 3.0)
    assert 0 < first.seconds <= second.seconds <= third.seconds - 0.5 < 60


def test_a_program_is_killed_with_its_children_when_its_time_is_over(tmp_path):
    child = "import time; time.sleep(60)"
    code = f"""{PROGRAM}
import subprocess
child = subprocess.Popen([sys.executable, "-c", "{child}"])
open(os.environ["PID_FILE"], "w").write(str(child.pid))
time.sleep(60)
"""
    start = time.monotonic()
    episodes = watch(python(code, PID_FILE=str(tmp_path / "pid")), clock=10.0)
    assert len(episodes) == 2 and 10 <= time.monotonic() - start < 40
    pid = (tmp_path / "pid").read_text()
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout
    assert not state.strip() or state.startswith("Z")


def test_a_program_that_fails_raises_with_its_last_line():
    with pytest.raises(RuntimeError, match="exited with code 1: ValueError: no such game"):
        watch(python("raise ValueError('no such game')"), clock=60.0)
