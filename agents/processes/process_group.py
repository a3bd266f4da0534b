"""Process groups of workers: what environments start ends with their worker.

A worker leads a group of its own, which the terminal's Ctrl-C does not reach. It has no session of
its own: Linux schedules sessions apart, so that its parent could not yield the processor to it, and
stepping would take four times as long. The processes that its environments start belong to the
group unless they leave it. A tiny process of the group, the watcher, kills the group when the worker
has ended in any way; the parent does the same when it ends the worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

_PR_SET_PDEATHSIG = 1

_watcher: int | None = None
_home = 0  # The group of the parent.


def lead_group(parent: int, descriptors: Sequence[int]) -> None:
    """Makes this process end with its parent, and its group with this process.

    A worker calls it first of all, because it forks.

    Args:
      parent: Id of the parent; if it is gone, this process exits.
      descriptors: Open files, which the watcher closes, besides the standard ones.
    """
    global _watcher, _home
    _home = os.getpgrp()
    _set_death_signal(signal.SIGKILL)
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # It may still print to the terminal.
    if os.getppid() != parent:
        os._exit(0)  # The parent ended before the signal was set.
    worker = os.getpid()
    if sys.platform != "linux":
        return  # The watcher would not end.
    _watcher = os.fork()
    if _watcher == 0:
        _watch(worker, descriptors)


def release_group() -> None:
    """Kills what is left of the group, so that a worker that exits leaves no process to be reaped.

    If the parent is gone, the watcher does it.
    """
    if _watcher is not None:
        with contextlib.suppress(PermissionError, ProcessLookupError, ChildProcessError):
            os.setpgid(0, _home)
            os.killpg(os.getpid(), signal.SIGKILL)
            os.waitpid(_watcher, 0)


def kill_group(leader: int) -> None:
    """Kills what is left of the group of a worker that has exited; for its parent.

    Args:
      leader: Id of the worker, which must not be reaped: otherwise the id may be another's.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def reap_group(leader: int) -> None:
    """Reaps processes of a killed group; they are children of its parent if that is process 1."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-leader, os.WNOHANG)[0]:
            pass


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Context in which processes are started that must call `release_interrupts`.

    The terminal's Ctrl-C reaches them until they lead a group, and an interpreter that it reaches
    while it starts prints a traceback and exits with 1.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Is inherited.
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def release_interrupts() -> None:
    """Lets SIGINT end this process at once, without a traceback, also one that was held before."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _watch(worker: int, descriptors: Sequence[int]) -> NoReturn:
    """Waits until the worker has ended and kills its group, which this process belongs to."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        for descriptor in (0, 1, 2, *descriptors):
            with contextlib.suppress(OSError):  # Closed by whoever started this program.
                os.close(descriptor)
        _set_death_signal(signal.SIGUSR1)
        if os.getppid() == worker:
            signal.sigwait({signal.SIGUSR1})
        os.killpg(0, signal.SIGKILL)
    finally:
        os._exit(1)


def _set_death_signal(signum: int) -> None:
    """Lets Linux send a signal to this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)
