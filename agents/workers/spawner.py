"""Start and end of worker processes."""

from __future__ import annotations

import concurrent.futures
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeAlias

from agents.shared_memory.channel import BUSY_ENV, WORDS_BYTES, Channel, map_words
from agents.shared_memory.shared_block import create_anonymous_file

# Seconds for a worker to close its environments, and then to exit after each signal.
GRACE_SECONDS = 2.0

_WORKER_CODE = (
    "import sys; sys.path[:] = {path!r}; "
    "from agents.workers.worker import main; main(*{arguments!r})"
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
        # Workers inherit the mask. Ctrl-C reaches the whole process group; workers are closed by
        # the parent.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while True:
            start_process, future = self._jobs.get()
            try:
                future.set_result(start_process())
            except Exception as error:
                future.set_exception(error)


_spawner: Spawner | None = None


def start_worker() -> tuple[Process, Channel]:
    """Starts a worker process, and returns it with the parent's side of its channel."""
    global _spawner
    # A fork has no other thread than the one that forked.
    if _spawner is None or _spawner.pid != os.getpid():
        _spawner = Spawner()
    words_file = create_anonymous_file(WORDS_BYTES)
    doorbell, worker_doorbell = socket.socketpair()
    messages, worker_messages = socket.socketpair()
    inherited = (words_file, worker_doorbell.fileno(), worker_messages.fileno())
    try:
        # Threads in a worker would only compete with the other workers.
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | os.environ
        code = _WORKER_CODE.format(path=sys.path, arguments=(os.getpid(), *inherited))
        process = _spawner.start(
            lambda: subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=inherited,
                env=environment,
            )
        )
        words = map_words(words_file)
        words[BUSY_ENV] = -1
        return process, Channel(
            words, doorbell, messages, parent=True, other_exited=lambda: process.poll() is not None
        )
    finally:
        os.close(words_file)
        worker_doorbell.close()
        worker_messages.close()


def end_worker(process: Process, channel: Channel, creator: int) -> None:
    """Ends a worker: closes its channel, waits, and sends SIGTERM and SIGKILL if it stays.

    Args:
      process: The worker.
      channel: The parent's side of its channel.
      creator: Id of the process that started it. In a fork of that nothing is done.
    """
    if os.getpid() != creator:
        return
    channel.close()
    for escalate in (process.terminate, process.kill):
        try:
            process.wait(GRACE_SECONDS)
            break
        except subprocess.TimeoutExpired:
            escalate()
    process.wait()
