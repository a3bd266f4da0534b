import contextlib
import os
import signal
import subprocess
import sys
import time

import cloudpickle
import pytest

from agents.workers.external_process import ExternalProcess
from tests.faulty_toys import CommandedEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCRIPT = """
import os, signal, subprocess, sys, time
import gymnasium
from agents.tools import ExternalProcess

class Parent(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def __init__(self):
        self.child = subprocess.Popen(["sleep", "60"]).pid
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
            os._exit(0)
    def reset(self, *, options, **kwargs):
        time.sleep(60) if options["state"] == "sleeping" else sum(range(10**11))

process = ExternalProcess(Parent)
group = process.pid
if sys.argv[1] != "idle":
    process.reset(options={"state": sys.argv[1]}, blocking=False)
print(group, flush=True)
time.sleep(60)
"""


class WithChildren(CommandedEnv):
    """Starts a process that stays, and one that forked and ignores SIGTERM."""

    def __init__(self):
        super().__init__()
        subprocess.Popen(["sleep", "60"])
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
            os._exit(0)


def members(group):
    """Ids of the processes of a group that run; zombies, which nobody may reap, do not."""
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{pid}/stat") as file:
                state, _, of_group = file.read().rpartition(")")[2].split()[:3]
            if int(of_group) == group and state not in "ZX":
                pids.append(int(pid))
    return pids


def wait_until_gone(group, seconds=2):
    deadline = time.monotonic() + seconds
    while members(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert members(group) == []


def test_a_worker_leads_a_group_that_the_watcher_belongs_to_without_files():
    with contextlib.closing(ExternalProcess(CommandedEnv)) as process:
        [watcher] = set(members(process.pid)) - {process.pid}
        assert os.getsid(process.pid) == os.getsid(0)  # A session would be scheduled apart.
        assert os.listdir(f"/proc/{watcher}/fd") == []


@pytest.mark.parametrize("end", ["close", "die", "exit", "sigkill", "hang"])
def test_what_an_environment_started_ends_with_its_worker(end):
    process = ExternalProcess(WithChildren, timeout=0.5 if end == "hang" else 20)
    assert len(members(process.pid)) == 4
    process.reset()
    if end == "sigkill":
        os.kill(process.pid, signal.SIGKILL)
        wait_until_gone(process.pid)  # Also while the parent does nothing.
    elif end != "close":
        action = {"die": CommandedEnv.DIE, "exit": CommandedEnv.EXIT, "hang": CommandedEnv.HANG}
        with pytest.raises(RuntimeError):
            process.step(action[end])
    process.close()
    wait_until_gone(process.pid, 0.5)


@pytest.mark.parametrize("state", ["idle", "sleeping", "computing"])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_of_a_parent_that_is_killed(signum, state, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(path), state],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as parent:
        try:
            group = int(parent.stdout.readline())
            assert len(members(group)) == 4
            os.killpg(parent.pid, signum)
            parent.wait(5)
        finally:
            parent.kill()
    wait_until_gone(group)


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


@pytest.mark.parametrize("leave", ["return", "raise", "interrupt"])
@pytest.mark.parametrize("call", ["constructor", "reset", "step", "add"])
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
        time.sleep(0.1)
        assert len(members(process.pid)) == 2  # The worker and the watcher.
        assert not log.exists()
    assert log.read_text() == "forking closed\nb closed\n"
