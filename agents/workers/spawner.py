"""Start and end of worker processes, and the limits of the system."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import errno
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from agents import stop_signals
from agents.errors import WorkerStartError
from agents.workers.channel import BUSY_ENV, SHARED_BYTES, WORKER_PID, Channel, map_words
from agents.workers.reaper import KILL, TERMINAL_SIGNALS, end_marked
from agents.workers.shared_block import create_anonymous_file

# Seconds for workers to close their environments, and then to exit after each signal. Their reapers
# take up to `reaper.LAST_SECONDS` after that.
GRACE_SECONDS = 2.0

# The same for workers whose environments are in the middle of something, if there is a hurry.
HURRY_SECONDS = 0.25

# Open files of the parent for each worker and its arrays; a few more while it starts.
_FILES_PER_WORKER = 5

# A variable of a worker and of all that it starts, by which these are found without their reaper.
MARK = "AGENTS_WORKER"

_WORKER_CODE = (
    "import sys; sys.path[:] = {path!r}; "
    "from agents.workers.reaper import guard; guard({parent}); "
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
        # Workers inherit the mask: interrupts do not end them, the parent closes them.
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
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
      channel: The parent's side of its channel.
      is_ended: Whether `end_workers` has ended it.
    """

    def __init__(
        self,
        process: Process,
        mark: str,
        words: memoryview,
        doorbell: socket.socket,
        messages: socket.socket,
    ):
        """Takes over a worker's reaper, its mark, mapped words, and the parent's sockets."""
        self._process, self._mark, self._creator = process, mark, os.getpid()
        self.is_ended = False
        self.channel = Channel(
            words,
            doorbell,
            messages,
            parent=True,
            # Not a method: no cycle of references may keep the files until garbage is collected.
            other_exited=lambda: process.poll() is not None,
        )

    @property
    def pid(self) -> int:
        """Id of the worker; before it has started, that of its reaper."""
        return self.channel.words[WORKER_PID] or self._process.pid

    @property
    def is_mine(self) -> bool:
        """True in the process that started it; a fork has copies of these objects, but no worker."""
        return self._creator == os.getpid()

    def has_exited(self) -> bool:
        """Returns whether the process has exited, or was killed, and all its descendants."""
        return self.exit_code() is not None

    def has_started(self) -> bool:
        """Returns whether the process has loaded its libraries."""
        return self.channel.words[WORKER_PID] != 0

    def is_busy(self) -> bool:
        """Returns whether the process is inside of an environment's constructor or method."""
        return self.channel.words[BUSY_ENV] >= 0

    def exit_code(self) -> int | None:
        """Returns the exit code as in `subprocess`, None while it runs."""
        return self._process.poll() if self.is_mine else None

    def wait(self, timeout: float) -> int | None:
        """Waits for the exit code, for at most `timeout` seconds; returns None after that."""
        deadline = time.monotonic() + timeout
        while self.exit_code() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.exit_code()

    def terminate(self) -> None:
        """Sends SIGTERM, unless the process has exited."""
        self._process.terminate()

    def kill(self) -> None:
        """Sends SIGKILL, unless the process has exited. Its reaper ends its descendants."""
        self._process.send_signal(KILL)

    def kill_reaper(self) -> None:
        """Ends a reaper that does not do its work, as if it is stopped, and the worker with it."""
        self._process.kill()

    def release(self) -> None:
        """Ends all descendants of an exited process, if its reaper has not done so."""
        if sys.platform != "linux":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        elif self.exit_code() == -signal.SIGKILL:  # Perhaps the reaper itself.
            end_marked(f"{MARK}={self._mark}".encode())
        self.is_ended = True


@contextlib.contextmanager
def pinned_working_directory() -> Iterator[None]:
    """Context whose workers start in the working directory that was current when it began.

    Environments in this process may change to another one before more workers are started.
    """
    try:
        home = os.getcwd()
    except FileNotFoundError:  # It was deleted.
        home = os.curdir
    _homes.append(home)
    try:
        yield
    finally:
        _homes.remove(home)


# Working directories of workers, the last one counts; without any, it is that of this process.
_homes: list[str] = []
_spawner: Spawner | None = None
_running: set[WorkerProcess] = set()


def start_worker() -> WorkerProcess:
    """Starts a worker process.

    Raises:
      OSError: There are too many open files or processes, or there is no memory.
    """
    global _spawner
    # A fork has a single thread.
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
        folder = _homes[-1] if _homes else os.curdir
        path = [os.path.join(folder, path) for path in sys.path]  # "" is the working directory.
        code = _WORKER_CODE.format(path=path, parent=os.getpid(), descriptors=descriptors)
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        # Threads in a worker would only compete with the other workers.
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = _spawner.start(
            lambda: subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                env=threads | os.environ | {MARK: mark},
                cwd=folder if os.path.isdir(folder) else None,
            )
        )
        worker = WorkerProcess(process, mark, words, *ours)
        kept.pop_all()
    _running.add(worker)
    return worker


def end_workers(workers: Iterable[WorkerProcess], hurry: bool = False) -> None:
    """Ends workers together, with all processes that their environments have started.

    Closes their channels, waits until they have closed their environments, and sends SIGTERM and
    SIGKILL to workers that stay. Does nothing for workers that have ended, and in a fork.

    Args:
      workers: The workers.
      hurry: Whether to end environments in the middle of a step, as after a stop signal.
    """
    workers = [worker for worker in workers if worker.is_mine and not worker.is_ended]
    for worker in workers:
        worker.channel.close()
    if workers and (hurry or stop_signals.is_stopping()):
        workers = _release_exited(workers, HURRY_SECONDS)
        for worker in workers:
            if worker.is_busy() or not worker.has_started():
                worker.kill()
    workers = _release_exited(workers, GRACE_SECONDS)
    for end in (WorkerProcess.terminate, WorkerProcess.kill, WorkerProcess.kill_reaper):
        for worker in workers:
            end(worker)
        workers = _release_exited(workers, GRACE_SECONDS)


def _release_exited(workers: Sequence[WorkerProcess], seconds: float) -> list[WorkerProcess]:
    """Releases workers as they exit, for some seconds; returns workers that stay."""
    remaining, pause, deadline = list(workers), 0.001, time.monotonic() + seconds
    while remaining:
        for worker in [worker for worker in remaining if worker.has_exited()]:
            worker.release()
            _running.discard(worker)
            remaining.remove(worker)
        if not remaining or time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return remaining


class SpareWorker:
    """A worker that waits for environments: an interpreter takes longer to start than most of them.

    It has the environment variables and the working directory of when it was started.
    """

    def __init__(self) -> None:
        """Initializes the spare; no process is started before `prepare`."""
        self._worker: WorkerProcess | None = None
        self._finalizer: weakref.finalize[..., SpareWorker] | None = None

    def prepare(self) -> None:
        """Starts the worker, unless there is one that runs, without waiting for it."""
        if self._worker is not None and not self._worker.has_exited():
            return
        self.close()
        with contextlib.suppress(OSError):  # `take` tries again, and raises.
            self._worker = start_worker()
            self._finalizer = weakref.finalize(self, end_workers, [self._worker])
            self._finalizer.atexit = False  # The spawner ends all workers together then.

    def take(self) -> WorkerProcess:
        """Returns the worker if there is one that runs, otherwise a new one; the caller ends it.

        Raises:
          OSError: See `start_worker`.
        """
        worker = self._worker
        if worker is None or not worker.is_mine or worker.has_exited():
            self.close()
            return start_worker()
        self._forget()
        return worker

    def close(self) -> None:
        """Ends the worker, by force: it has no environments to close."""
        if self._worker is not None:
            worker = self._worker
            self._forget()
            if worker.is_mine and not worker.is_ended:
                worker.kill()
            end_workers([worker])

    def _forget(self) -> None:
        self._worker = None
        if self._finalizer is not None:
            self._finalizer.detach()


@contextlib.contextmanager
def explaining_limits(num_processes: int = 1) -> Iterator[None]:
    """Raises WorkerStartError instead of the OSError of a limit of the system.

    Args:
      num_processes: Requested number of worker processes.
    """
    try:
        yield
    except (OSError, WorkerStartError) as error:
        cause = error.__cause__ if isinstance(error, WorkerStartError) else error
        advice = _advice(cause.errno) if isinstance(cause, OSError) else None
        if not isinstance(cause, OSError) or advice is None:
            raise
        asked = "one was" if num_processes == 1 else f"{num_processes} were"
        raise WorkerStartError(
            f"A worker process could not be started ({asked} asked for): "
            f"{os.strerror(cause.errno or 0)}.\n{advice}"
        ) from cause


def _advice(number: int | None) -> str | None:
    """Returns what to do about an error of the system, None if it is not of a limit."""
    if number in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"This process may open {limit} files (`ulimit -n`), and a worker takes "
            f"{_FILES_PER_WORKER} of them.\nRaise the limit, or use fewer worker processes."
        )
    if number == errno.EAGAIN:
        limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        shown = "any number of" if limit == resource.RLIM_INFINITY else str(limit)
        return (
            f"This user may run {shown} processes and threads (`ulimit -u`), a container may allow "
            "less.\nRaise the limit, or use fewer worker processes."
        )
    if number == errno.EFBIG:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        return (
            f"This process may write {limit} bytes to a file (`ulimit -f`), and environments share "
            "memory as a file.\nRaise the limit."
        )
    if number == errno.ENOMEM:
        return "There is not enough memory for it.\nUse fewer worker processes."
    return None


# Together: finalizers of hosts would wait for one worker after another.
atexit.register(lambda: end_workers(list(_running), hurry=True))
