"""An environment that crashes, hangs or returns bad data where it is told to.

Worker processes and commands import this module by name: `tests.faults.troubled_env:Troubled-v0`.
"""

import ctypes
import os
import signal
import sys
import threading
import time

import gymnasium
import numpy as np
from gymnasium import spaces

OBSERVATIONS = spaces.Box(-1, 1, (2,), np.float32)
VALID = np.zeros(2, np.float32)  # The observation.
CALLS = ("constructor", "reset", "step")
FOREVER = 1000


class Exiting(Exception):
    """An error that exits where it is to describe itself."""

    def __str__(self):
        sys.exit(3)

    __repr__ = __str__


class Unprintable(Exception):
    """An error that fails to describe itself."""

    def __str__(self):
        raise RuntimeError("no description")

    __repr__ = __str__


def raise_error(error):
    raise error


def raise_unpicklable():
    class LocalError(Exception):
        lock = threading.Lock()

    raise LocalError("kept here")


def recurse():
    recurse()


def allocate():
    bytearray(1 << 60)


def read_null():
    ctypes.string_at(0)


def close_files():
    os.closerange(3, 4096)


def replace_files():
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3, 64):
        os.dup2(nothing, descriptor)


def close_output():
    for descriptor in (1, 2):
        os.close(descriptor)
    sys.stderr.close()
    raise ValueError("after that")


def raise_cycle():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def exit_in_a_thread():
    threading.Thread(target=lambda: os._exit(7)).start()
    time.sleep(FOREVER)


def replace_program():
    os.execv("/bin/true", ["true"])


def fork_and_die():
    if os.fork() == 0:
        time.sleep(5)  # The child keeps the files of its parent open.
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def kill(signum):
    os.kill(os.getpid(), signum)


# By name: what to call, and what becomes of it: the name of the exception's type, or the exit code
# of the process.
CRASHES = {
    "ValueError": (lambda: raise_error(ValueError("no luck")), "ValueError"),
    "a message of a megabyte": (lambda: raise_error(ValueError("x" * 10**6)), "ValueError"),
    "an error that has no text": (lambda: raise_error(Unprintable()), "Unprintable"),
    "an error that can't be pickled": (raise_unpicklable, "LocalError"),
    "an error whose text exits": (lambda: raise_error(Exiting()), "Exiting"),
    "a text that is not Unicode": (lambda: raise_error(ValueError("\udcff\ud800")), "ValueError"),
    "a cycle of causes": (raise_cycle, "ValueError"),
    "its output closed": (close_output, "ValueError"),
    "StopIteration": (lambda: raise_error(StopIteration()), "StopIteration"),
    "SystemExit": (lambda: sys.exit(3), "SystemExit"),
    "KeyboardInterrupt": (lambda: raise_error(KeyboardInterrupt()), "KeyboardInterrupt"),
    "BaseException": (lambda: raise_error(BaseException("odd")), "BaseException"),
    "endless recursion": (recurse, "RecursionError"),
    "too large an array": (allocate, "MemoryError"),
    "os._exit(0)": (lambda: os._exit(0), {0}),
    "os._exit(7)": (lambda: os._exit(7), {7}),
    "SIGKILL": (lambda: kill(signal.SIGKILL), {-signal.SIGKILL}),
    "SIGTERM": (lambda: kill(signal.SIGTERM), {-signal.SIGTERM}),
    "a null pointer": (read_null, {-signal.SIGSEGV}),
    "abort()": (os.abort, {-signal.SIGABRT}),
    "os._exit(7) in a thread": (exit_in_a_thread, {7}),
    "its files closed": (close_files, "InvalidDataError"),
    "its files replaced": (replace_files, "InvalidDataError"),
    "another program": (replace_program, {-signal.SIGIO}),  # As its files close.
    "a fork that keeps its files": (fork_and_die, {-signal.SIGKILL}),
}


def sleep():
    time.sleep(FOREVER)


def spin():
    while True:
        pass


def hold_gil():
    ctypes.PyDLL(None).sleep(FOREVER)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def ignore_signals():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(FOREVER)


HANGS = {
    "sleeps": sleep,
    "spins": spin,
    "holds the GIL": hold_gil,
    "is stopped": stop,
    "ignores SIGTERM": ignore_signals,
}


class Bare:
    """An environment without spaces."""

    metadata, render_mode = {}, None

    def close(self):
        pass


# What constructors return in place of an environment.
BAD_CONSTRUCTORS = {
    "nothing": lambda: None,
    "no environment": lambda: 3,
    "an environment without spaces": Bare,
    "spaces that are none": lambda: _with_space(None),
    "a space without arrays": lambda: _with_space(spaces.Sequence(spaces.Discrete(2))),
    "another space": lambda: _with_space(spaces.Box(-1, 1, (3,), np.float32)),
}


def _with_space(space):
    env = TroubledEnv()
    env.observation_space = space
    return env


class TroubledEnv(gymnasium.Env):
    """Has a fault in a call; otherwise its episodes have ten steps that pay 1 each."""

    observation_space, action_space = OBSERVATIONS, spaces.Discrete(2)

    def __init__(self, fault="", call="step", at=2, once="", pause=0.0):
        """Initializes the environment.

        Args:
          fault: A key of `CRASHES` or `HANGS`, or of BAD_STEPS in tests/environments/test_data_check.py.
          call: One of `CALLS`.
          at: Which of these calls, from 1.
          once: A file; if it exists, nothing happens, otherwise it is created before the fault.
          pause: Seconds that every step sleeps.
        """
        self.arm(fault, call, at, once)
        self._steps, self._pause = 0, pause
        if call == "constructor":
            self._commit("constructor", ())

    def arm(self, fault, call="step", at=1, once=""):
        """Prepares another fault; arguments as above, or a dictionary or value of BAD_STEPS."""
        self._fault, self._call, self._left, self._once = fault, call, at, once

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return self._commit("reset", (VALID, {}))

    def step(self, action):
        self._steps += 1
        if self._pause:
            time.sleep(self._pause)
        return self._commit("step", (VALID, 1.0, False, self._steps == 10, {}))

    def _commit(self, call, returned):
        """Commits the fault if it is due in this call; returns what the call is to return."""
        self._left -= call == self._call
        if self._fault == "" or call != self._call or self._left != 0 or not self._is_first():
            return returned
        if self._fault in (*CRASHES, *HANGS) and isinstance(self._fault, str):
            (CRASHES[self._fault][0] if self._fault in CRASHES else HANGS[self._fault])()
            return returned
        bad = self._fault
        if isinstance(bad, str):
            from tests.environments.test_data_check import BAD_STEPS  # Imports pytest.

            bad, _ = BAD_STEPS[bad]
        if isinstance(bad, dict):
            return tuple(bad.get(index, value) for index, value in enumerate(returned))
        return None if bad is None else returned[:bad]

    def _is_first(self):
        if not self._once:
            return True
        try:
            os.close(os.open(self._once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


gymnasium.register("Troubled-v0", TroubledEnv)
