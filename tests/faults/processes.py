"""What processes hold: children, open files, threads, shared memory; for tests of leaks."""

import contextlib
import gc
import os
import time
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")


class Holdings(NamedTuple):
    """What this process holds.

    Attributes:
      children: Number of child processes, zombies included.
      descriptors: Number of open files.
      segments: Number of mappings of shared memory.
      threads: Number of threads.
    """

    children: int
    descriptors: int
    segments: int
    threads: int

    def more_than(self, other):
        """By how much each number is larger than in `other`, where it is."""
        pairs = zip(self._fields, self, other, strict=True)
        return {name: mine - theirs for name, mine, theirs in pairs if mine > theirs}


def holdings():
    """Returns what this process holds, after garbage was collected."""
    gc.collect()
    with open("/proc/self/maps") as file:
        segments = sum("rw-s" in line for line in file)
    tasks = os.listdir("/proc/self/task")
    return Holdings(len(children()), len(os.listdir("/proc/self/fd")), segments, len(tasks))


def children():
    """Ids of the children of all threads, zombies included."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found |= {int(pid) for pid in file.read().split()}
    return found


def resident_bytes():
    """Memory that this process uses, without what it only shares."""
    gc.collect()
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * PAGE


def is_running(pid):
    """Whether a process runs; a zombie, which may have nobody to reap it, does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def still_running(pids, seconds):
    """Waits until processes have ended; returns those that run after `seconds`, and the time."""
    pids, start = list(pids), time.monotonic()
    while (running := [pid for pid in pids if is_running(pid)]) and (
        time.monotonic() - start < seconds
    ):
        time.sleep(0.01)
    return running, time.monotonic() - start


@contextlib.contextmanager
def taking_less_than(seconds):
    """A section that does not hang."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds
