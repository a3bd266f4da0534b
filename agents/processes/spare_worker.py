"""A worker that is started before it is needed."""

from __future__ import annotations

import contextlib
import weakref

from agents.processes.spawner import WorkerProcess, end_workers, start_worker


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
