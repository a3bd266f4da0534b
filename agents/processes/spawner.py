"""Start and end of worker processes."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import errno
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from agents import stop_signals
from agents.processes.process_group import kill_group, reap_group
from agents.shared_memory.channel import BUSY_ENV, SHARED_BYTES, Channel, map_words
from agents.shared_memory.shared_block import create_anonymous_file

# Seconds for workers to close their environments, and then to exit after SIGTERM.
GRACE_SECONDS = 2.0

# The same for workers whose environments are in the middle of something, if this process was asked
# to stop, or exits.
STOP_GRACE_SECONDS = 0.25

_WORKER_CODE = (
    "import sys; sys.path[:] = {path!r}; "
    "from agents.processes.process_group import lead_group; lead_group({parent}, {descriptors}); "
    "from agents.workers.worker import main; main(*{descriptors})"
)

Process: TypeAlias = "subprocess.Popen[bytes]"


class Spawner:
    """A thread that starts all workers and lives as long as its process.

    Linux ends a worker when the thread that started it exits, not when the process does.

    Attributes:
      pid: The process that the thread belongs to.
    """

    def __init__(self) -> None:
        """Starts the thread."""
        self.pid = os.getpid()
        self._jobs: queue.SimpleQueue[
            tuple[Callable[[], Process], concurrent.futures.Future[Process]]
        ] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="worker-spawner", daemon=True).start()

    def start(self, start_process: Callable[[], Process]) -> Process:
        """Calls `start_process` in the thread and returns the process."""
        future: concurrent.futures.Future[Process] = concurrent.futures.Future()
        self._jobs.put((start_process, future))
        return future.result()

    def _run(self) -> None:
        # Workers inherit the mask: whoever interrupts them too, the parent closes them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while True:
            start_process, future = self._jobs.get()
            try:
                future.set_result(start_process())
            except Exception as error:
                future.set_exception(error)
            del start_process, future  # An error holds the frames, and the files, of its caller.


class WorkerProcess:
    """A worker process and the parent's side of its channel.

    Attributes:
      pid: Id of the process. It stays the worker's until `end_workers`, also if it has exited.
      channel: The parent's side of its channel.
      is_ended: Whether `end_workers` has ended it.
    """

    def __init__(
        self,
        process: Process,
        words: memoryview,
        doorbell: socket.socket,
        messages: socket.socket,
    ):
        """Takes over a process, the mapped words of the channel and the parent's sockets."""
        self._process, self._creator = process, os.getpid()
        self.pid, self.is_ended = process.pid, False
        self.channel = Channel(
            words,
            doorbell,
            messages,
            parent=True,
            # Not a method: no cycle of references may keep the files until garbage is collected.
            other_exited=lambda: _exit_code(process) is not None,
        )

    @property
    def is_mine(self) -> bool:
        """Whether this process started it; a fork has copies of these objects, but no worker."""
        return self._creator == os.getpid()

    def has_exited(self) -> bool:
        """Returns whether the process has exited, or was killed."""
        return self.exit_code() is not None

    def is_busy(self) -> bool:
        """Returns whether the process is inside of an environment's constructor or method."""
        return self.channel.words[BUSY_ENV] >= 0

    def exit_code(self) -> int | None:
        """Returns the exit code as in `subprocess`, None while it runs."""
        return _exit_code(self._process) if self.is_mine else None

    def wait(self, timeout: float) -> int | None:
        """Waits for the exit code, for at most `timeout` seconds; returns None after that."""
        deadline = time.monotonic() + timeout
        while self.exit_code() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.exit_code()

    def send_signal(self, signum: int) -> None:
        """Sends a signal, unless the process has exited."""
        if not self.has_exited():
            os.kill(self.pid, signum)

    def reap(self) -> None:
        """Releases the process, which has exited, and kills what is left of its group."""
        if self._process.returncode is None:  # Nobody else has reaped it: the id is still its own.
            kill_group(self.pid)
        self._process.wait()
        reap_group(self.pid)
        self.is_ended = True


def _exit_code(process: Process) -> int | None:
    """Returns the exit code of a process without reaping it, None while it runs."""
    if process.returncode is not None:
        return process.returncode
    try:
        # Not reaped: the id names its group, which must not become another's.
        state = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # Somebody else has reaped it.
        return process.poll()
    if state is None:
        return None
    return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status


_spawner: Spawner | None = None
_running: set[WorkerProcess] = set()


def start_worker() -> WorkerProcess:
    """Starts a worker process.

    Raises:
      OSError: There are too many open files or processes, or there is no memory.
    """
    global _spawner
    # A fork has no other thread than the one that forked.
    if _spawner is None or _spawner.pid != os.getpid():
        try:
            _spawner = Spawner()
        except RuntimeError as error:  # Threads are processes to the system's limits.
            raise OSError(errno.EAGAIN, str(error)) from error
    with contextlib.ExitStack() as inherited, contextlib.ExitStack() as kept:
        words_file = create_anonymous_file(SHARED_BYTES)
        inherited.callback(os.close, words_file)
        words = map_words(words_file)
        words[BUSY_ENV] = -1
        ours, descriptors = [], [words_file]
        for _ in ("doorbell", "messages"):
            end, other_end = socket.socketpair()
            ours.append(kept.enter_context(end))
            descriptors.append(inherited.enter_context(other_end).fileno())
        code = _WORKER_CODE.format(path=sys.path, parent=os.getpid(), descriptors=descriptors)
        worker = WorkerProcess(_spawn(_spawner, code, descriptors), words, *ours)
        kept.pop_all()
    _running.add(worker)
    return worker


def _spawn(spawner: Spawner, code: str, descriptors: Sequence[int]) -> Process:
    """Starts an interpreter that runs `code`."""
    # Threads in a worker would only compete with the other workers.
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | os.environ
    return spawner.start(
        lambda: subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            env=environment,
        )
    )


def end_workers(workers: Iterable[WorkerProcess], at_exit: bool = False) -> None:
    """Ends workers together, with what is left of their process groups.

    Closes their channels, waits until they have closed their environments, and sends SIGTERM and
    SIGKILL to those that stay. Environments that do not return are not waited for if this process
    was asked to stop. Does nothing for workers that have ended, and in a fork.

    Args:
      workers: The workers.
      at_exit: Whether this process exits, which likewise does not wait for environments.
    """
    workers = [worker for worker in workers if worker.is_mine and not worker.is_ended]
    for worker in workers:
        worker.channel.close()
    if workers and (at_exit or stop_signals.is_stopping()):
        workers = _reap_exited(workers, time.monotonic() + STOP_GRACE_SECONDS)
        for worker in workers:
            if worker.is_busy():
                worker.send_signal(signal.SIGKILL)
    for signum in (None, signal.SIGTERM, signal.SIGKILL):
        for worker in workers:
            if signum is not None:
                worker.send_signal(signum)
        grace = GRACE_SECONDS if signum != signal.SIGKILL else GRACE_SECONDS / 4
        workers = _reap_exited(workers, time.monotonic() + grace)


def _reap_exited(workers: Sequence[WorkerProcess], deadline: float) -> list[WorkerProcess]:
    """Reaps workers as they exit, until the deadline; returns those that stay."""
    remaining, pause = list(workers), 0.001
    while remaining:
        for worker in [worker for worker in remaining if worker.has_exited()]:
            worker.reap()
            _running.discard(worker)
            remaining.remove(worker)
        if not remaining or time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return remaining


# Together: finalizers of hosts would wait for one worker after another.
atexit.register(lambda: end_workers(list(_running), at_exit=True))
