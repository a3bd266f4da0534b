"""Errors where a limit of the system refuses another process or open file."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator

from agents.errors import WorkerStartError

# Open files of the parent for each worker and its arrays; a few more while it starts.
_FILES_PER_WORKER = 5


@contextlib.contextmanager
def explaining_limits(num_processes: int = 1) -> Iterator[None]:
    """Raises WorkerStartError instead of the OSError of a limit of the system.

    Args:
      num_processes: Number of worker processes that were asked for.
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
    if number == errno.ENOMEM:
        return "There is not enough memory for it.\nUse fewer worker processes."
    return None
