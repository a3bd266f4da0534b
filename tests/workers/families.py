"""A program whose workers have children of many kinds; it ends in a chosen way.

It prints the ids of itself, its workers and their reapers.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing import shared_memory

import gymnasium

from agents.errors import WorkerDiedError
from agents.workers.external_process import ExternalProcess

STUBBORN = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
)
CRASH, SLEEP = 1, 2


def sleep():
    """Sleeps for long."""
    time.sleep(600)


class Parent(gymnasium.Env):
    """Has children of a kind, and ends its process in a way that the action tells."""

    observation_space = action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, kind):
        """Starts the children."""
        getattr(self, kind)()

    def plain(self):
        """A process as usual."""
        subprocess.Popen(["sleep", "600"])

    def session(self):
        """A process in a session of its own."""
        subprocess.Popen(["sleep", "600"], start_new_session=True)

    def daemon(self):
        """A process that was forked twice."""
        if (child := os.fork()) == 0:
            os.setsid()
            if os.fork() == 0:
                os.execlp("sleep", "sleep", "600")
            os._exit(0)
        os.waitpid(child, 0)

    def stubborn(self):
        """A daemon, and its child, that ignore SIGTERM."""
        code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); {STUBBORN}"
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        process.stdout.readline()
        process.stdout.readline()

    def forked(self):
        """A fork of the worker, which keeps its files open and ignores SIGTERM."""
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            sleep()

    def spawned(self):
        """A process of multiprocessing, and a resource tracker."""
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=time.sleep, args=(600,), daemon=True)
        self.process.start()

    def shared(self):
        """Shared memory, locks and queues with names, and their resource tracker."""
        context, mark = multiprocessing.get_context("spawn"), os.environ["AGENTS_TEST"]
        multiprocessing.current_process()._config["semprefix"] = f"/{mark}"
        self.memory = shared_memory.SharedMemory(mark, create=True, size=100)
        self.lock, self.queue = context.Lock(), context.Queue()
        self.queue.put(1)

    def waiting(self):
        """Waits until there are no more children."""
        subprocess.Popen(["true"])
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()

    def close(self):
        """Removes the shared memory, as environments should."""
        if hasattr(self, "memory"):
            self.memory.close()
            self.memory.unlink()

    def reset(self, *, seed=None, options=None):
        """Returns at once."""
        return 0, {}

    def step(self, action):
        """Does what the action tells."""
        if action == CRASH:
            os.kill(os.getpid(), signal.SIGSEGV)
        if action == SLEEP:
            sleep()
        return 0, 0.0, False, False, {}


KINDS = "plain session daemon stubborn forked spawned shared waiting".split()


def parent_of(pid):
    """Returns the id of a process' parent."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def fail(process, action):
    """Steps an environment whose worker has ended, or ends then; prints how."""
    try:
        while True:
            process.step(action)
    except WorkerDiedError as error:
        print(error.exit_code, error.env_index, flush=True)


def main(end):
    """Runs the program."""
    processes = [ExternalProcess(lambda kind=kind: Parent(kind), blocking=False) for kind in KINDS]
    for process in processes:
        process.wait_until_ready()
        process.reset()
    workers = [process.pid for process in processes]
    reapers = [parent_of(pid) for pid in workers]
    if end == "busy trainer":
        for process in processes:
            process.step(SLEEP, blocking=False)
    print(os.getpid(), *workers, *reapers, flush=True)
    sys.stdin.readline()
    if end == "busy trainer":
        os.kill(os.getpid(), signal.SIGKILL)
    for pid in {"worker": workers, "reaper": reapers}.get(end, []):
        os.kill(pid, signal.SIGKILL)
    if end != "close":
        for process in processes:
            fail(process, CRASH if end == "crash" else 0)
    for process in processes:
        process.close()


if __name__ == "__main__":
    main(sys.argv[1])
