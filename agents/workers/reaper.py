"""Reapers: parents of worker processes, which end the processes that environments start.

A started process that calls `guard` forks. Its child goes on as the program, which is a worker or a
learner; the process itself becomes the child's reaper. Linux hands over orphans to the reaper,
also from other sessions, so that it finds all descendants of the program once that has ended. The
program has no other children than its own: an environment may wait for all of them.

Program and reaper lead a process group each, which the terminal's Ctrl-C does not reach. They have
no session of their own: Linux schedules sessions apart, so that a parent could not yield the
processor to its worker, and stepping would take four times as long.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NoReturn

# Seconds for a program whose parent is gone to end by itself, then after SIGTERM; and for the
# processes that it leaves to end after SIGTERM.
GRACE_SECONDS = 0.25

# Seconds for resource trackers of `multiprocessing` to remove what all others have left, and until
# what can't be killed is given up.
TRACKER_SECONDS = 1.5
LAST_SECONDS = 2.0

# A reaper passes on these signals to its program; KILL as SIGKILL.
KILL = signal.SIGUSR2
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, KILL}
_PARENT_DIED = signal.SIGUSR1

# Signals of a terminal to all processes of a group: Ctrl-C, and SIGHUP when it is closed.
TERMINAL_SIGNALS = {signal.SIGINT, signal.SIGHUP}

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def guard(parent: int, terminates: bool = True) -> None:
    """Lets this process and all its descendants end with the parent; returns in a child.

    To be called first of all, because it forks. The exit code or signal of the child becomes that
    of this process.

    Args:
      parent: Id of the parent; if it is gone, this process exits.
      terminates: Whether the child gets SIGTERM before SIGKILL when the parent ends. A learner would
        take SIGTERM for a request to stop.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.setpgid(0, 0)
    is_linux = sys.platform == "linux"
    if is_linux:
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, _PARENT_DIED)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:
        os._exit(0)  # The parent ended before the signal was set.
    if is_linux:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Where it is ignored, exit codes are lost.
        reaper = os.getpid()
        if program := os.fork():
            _reap(program, parent, [signal.SIGTERM] if terminates else [])
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != reaper:
            os._exit(0)
        os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # It may still print to the terminal.
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_marked(variable: bytes) -> None:
    """Kills all processes that have an environment variable, `NAME=value`; in place of a reaper.

    Resource trackers end by themselves when the others have.
    """
    found = True
    while found:
        found = False
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                is_marked = variable in file.read().split(b"\0")
                if is_marked and not _is_resource_tracker(int(pid)):
                    os.kill(int(pid), signal.SIGKILL)
                    found = True


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Context in which processes are started that must call `release_interrupts`.

    The terminal's Ctrl-C and hangup reach them until they lead a group, and an interpreter that
    Ctrl-C reaches while it starts prints a traceback and exits with 1.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)  # Is inherited.
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def release_interrupts() -> None:
    """Lets signals of the terminal end this process at once, also one that was held before."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # Not with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TERMINAL_SIGNALS)


def _reap(program: int, parent: int, signals: Sequence[int]) -> NoReturn:
    """Waits for the end of the program, ends its descendants, and ends likewise."""
    try:
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                os.close(int(descriptor))
        exit_code = os.waitstatus_to_exitcode(_wait(program, parent, signals))
        _end_orphans()
        if exit_code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler.
                signal.signal(-exit_code, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-exit_code})
            os.kill(os.getpid(), -exit_code)
        os._exit(exit_code)
    finally:
        os._exit(1)


def _wait(program: int, parent: int, signals: Sequence[int]) -> int:
    """Returns the wait status of the program, which is ended in steps if the parent is gone."""
    steps = iter(signals)
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == program:
            return status
        if pid:
            continue  # An orphan.
        if os.getppid() == parent:
            received = signal.sigwait({signal.SIGCHLD, _PARENT_DIED, *_PASSED_ON})
            if received in _PASSED_ON:
                os.kill(program, signal.SIGKILL if received == KILL else received)
        elif signal.sigtimedwait({signal.SIGCHLD}, GRACE_SECONDS) is None:
            os.kill(program, next(steps, signal.SIGKILL))


def _end_orphans() -> None:
    """Ends all children, and theirs, which become children of this process."""
    sent: set[tuple[int, int]] = set()
    start = time.monotonic()
    while (seconds := time.monotonic() - start) < LAST_SECONDS:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        signum = signal.SIGTERM if seconds < GRACE_SECONDS else signal.SIGKILL
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            orphans = map(int, file.read().split())
        for orphan in orphans:
            waits = seconds < TRACKER_SECONDS and _is_resource_tracker(orphan)
            if not waits and (orphan, signum) not in sent:
                sent.add((orphan, signum))
                with contextlib.suppress(PermissionError):
                    os.kill(orphan, signum)
        signal.sigtimedwait({signal.SIGCHLD}, 0.01)


def _is_resource_tracker(pid: int) -> bool:
    """Returns whether a process cleans up after others, as soon as these have ended."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"resource_tracker" in file.read()
