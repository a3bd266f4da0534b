"""What environments start ends with their worker, however that ends."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import cloudpickle
import pytest

import agents
from agents.workers.external_process import ExternalProcess
from tests.faults.commands import processes_with
from tests.faults.processes import still_running
from tests.faulty_toys import CommandedEnv
from tests.workers.families import KINDS, parent_of

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROOT = Path(agents.__file__).parents[1]

# Seconds on a busy machine; on an idle one they take two.
SECONDS = 60


def wait_until_gone(mark):
    deadline = time.monotonic() + SECONDS
    while (left := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


# How the program ends, and the exit code that errors name.
ENDS = {
    "close": None,
    "crash": -signal.SIGSEGV,
    "worker": -signal.SIGKILL,
    "reaper": -signal.SIGKILL,
    "busy trainer": None,
}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_that_environments_have_started_is_left(end, tmp_path):
    mark = secrets.token_hex(8)
    with (tmp_path / "stderr").open("w") as stderr:
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.workers.families", end],
            cwd=ROOT,
            env={**os.environ, "AGENTS_TEST": mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert len(pids) == 1 + 2 * len(KINDS)
    # A child of each kind but the last, two of the stubborn, and the tracker of the spawned.
    assert len(processes_with(mark)) == len(pids) + len(KINDS) - 1 + 2
    assert len([name for name in os.listdir("/dev/shm") if mark in name]) > 2
    program.stdin.write("\n")
    stdout, _ = program.communicate(timeout=SECONDS)
    assert program.returncode == (-signal.SIGKILL if "trainer" in end else 0)
    assert stdout == ("" if ENDS[end] is None else f"{int(ENDS[end])} 0\n" * len(KINDS))
    wait_until_gone(mark)
    assert [name for name in os.listdir("/dev/shm") if mark in name] == []
    text = (tmp_path / "stderr").read_text()
    assert "Traceback" not in text
    assert end != "close" or text == ""


def test_a_worker_leads_a_group_and_its_reaper_another_without_files():
    with contextlib.closing(ExternalProcess(CommandedEnv)) as process:
        reaper = parent_of(process.pid)
        assert parent_of(reaper) == os.getpid()
        assert os.getpgid(process.pid) == process.pid and os.getpgid(reaper) == reaper
        assert os.getsid(process.pid) == os.getsid(0)  # A session would be scheduled apart.
        assert os.listdir(f"/proc/{reaper}/fd") == []
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        assert Path(children).read_text() == ""


def test_a_stopped_reaper_does_not_keep_a_process_from_closing():
    process = ExternalProcess(CommandedEnv)
    reaper = parent_of(process.pid)
    os.kill(reaper, signal.SIGSTOP)
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(reaper, 0)


def test_stopping_and_continuing_a_terminals_group_leaves_workers_as_they_are(tmp_path):
    code = (
        "from agents.tools import ExternalProcess; from tests.faulty_toys import CommandedEnv\n"
        "process = ExternalProcess(CommandedEnv); print(process.reset()[0], flush=True)\n"
        "input(); print(process.step(0)[0], flush=True); process.close()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=os.setpgrp,
    ) as program:
        assert program.stdout.readline() == "[0. 0.]\n"
        os.killpg(program.pid, signal.SIGTSTP)
        os.waitid(os.P_PID, program.pid, os.WSTOPPED)
        os.killpg(program.pid, signal.SIGCONT)
        stdout, _ = program.communicate("\n", timeout=SECONDS)
    assert (stdout, program.returncode) == ("[1. 1.]\n", 0)


class Forking(CommandedEnv):
    """Forks in a chosen call; the child leaves the call in a chosen way."""

    def __init__(self, call="step", leave="return", log=None):
        super().__init__("forking", log)
        self._call, self._leave, self.pid = call, leave, os.getpid()
        self.fork_in("constructor")

    def fork_in(self, call):
        if call != self._call or os.fork() != 0:
            return
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Its traceback.
        if self._leave == "raise":
            raise ValueError("in the child")
        if self._leave == "interrupt":
            raise KeyboardInterrupt

    def reset(self, **kwargs):
        self.fork_in("reset")
        return super().reset(**kwargs)

    def step(self, action):
        self.fork_in("step")
        return super().step(action)

    def add(self, one, two=0):
        self.fork_in("add")
        return os.getpid()


@pytest.mark.parametrize(
    ("call", "leave"),
    [
        ("constructor", "return"),
        ("reset", "raise"),
        ("step", "return"),
        ("step", "interrupt"),
        ("add", "raise"),
    ],
)
def test_a_process_that_an_environment_forks_serves_no_turns_and_closes_nothing(
    call, leave, tmp_path
):
    log = tmp_path / "log"
    process = ExternalProcess([lambda: Forking(call, leave, log), lambda: CommandedEnv("b", log)])
    with contextlib.closing(process):
        observ, _ = process.reset()
        assert observ.tolist() == [[0, 0], [0, 0]]
        for count in range(1, 20):
            observ, *_ = process.step([0, 0])
            assert observ[:, 1].tolist() == [count, count]
        assert process[0].call("add", 1) == process.pid
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert still_running(map(int, children), SECONDS)[0] == []
        assert not log.exists()
    assert log.read_text() == "forking closed\nb closed\n"
