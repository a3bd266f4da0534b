"""A program whose workers are idle, asleep and holding the GIL; it waits to be killed.

For every line that it reads it forks such a program, which prints the ids of its processes.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

import gymnasium

from agents.workers.external_process import ExternalProcess


class Parent(gymnasium.Env):
    """Has a child that sleeps and one that ignores SIGTERM; its reset does not return."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.pids = [os.getpid(), subprocess.Popen(["sleep", "60"]).pid]
        self.pids.append(os.fork())
        if self.pids[-1] == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
            os._exit(0)

    def reset(self, *, seed=None, options=None):
        if options["state"] == "holding the GIL":
            ctypes.PyDLL(None).sleep(60)
        time.sleep(60)


def wait_with_workers():
    processes = [ExternalProcess(Parent, blocking=False) for _ in range(3)]
    for process in processes:
        process.wait_until_ready()
    pids = [pid for process in processes for pid in process.pids]
    for process, state in zip(processes[1:], ("asleep", "holding the GIL"), strict=True):
        process.reset(options={"state": state}, blocking=False)
    time.sleep(0.1)
    print(os.getpid(), *pids, flush=True)
    time.sleep(60)


if __name__ == "__main__":
    for _ in sys.stdin:
        program = os.fork()
        if program == 0:
            sys.stdin.close()
            wait_with_workers()
            sys.exit(0)
        print("ended", os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), flush=True)
