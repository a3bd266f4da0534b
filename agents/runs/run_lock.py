"""The lock of a run's folder: only one process trains in it at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path

from agents.errors import UsageError
from agents.regular_files import open_regular

_MAX_BYTES = 500


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Holds the lock of a file, which names the owner. Released when the owner exits, for any reason.

    Args:
      path: The file; it is created if it is missing, and stays.

    Yields:
      The descriptor of the file.

    Raises:
      UsageError: Another process, or this one, holds it; or it is no regular file, or can't be
        created.
    """
    # A child process that inherited the descriptor would keep the lock: it is closed by `exec`.
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UsageError(f"can't create {path} ({error.strerror})") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, _MAX_BYTES, 0).decode("utf-8", "replace").split("\n")[0]
            raise UsageError(
                f"{path.parent} is being trained by {owner or 'another process'}\n"
                "wait until it ends, or start a new run, without --timestamp"
            ) from None
        except OSError as error:  # Some network disks have no locks.
            warnings.warn(f"can't lock {path} ({error.strerror})", stacklevel=3)
        # Replaces the name of the owner before; a name is there all the time.
        name, written = f"process {os.getpid()} on host {socket.gethostname()}\n", 0
        with contextlib.suppress(OSError):  # On a full disk the lock holds as well.
            written = os.pwrite(descriptor, name.encode(), 0)
        os.ftruncate(descriptor, written)
        yield descriptor
    finally:
        os.close(descriptor)


def folder_of(descriptor: int) -> Path | None:
    """Returns the folder that a locked file is in now; None if it was deleted or is unknown."""
    try:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # Linux follows the file.
        return path.parent if os.path.samestat(path.stat(), os.fstat(descriptor)) else None
    except OSError:
        return None
