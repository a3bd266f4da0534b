"""The journal of a sweep: a file that several processes share, on a disk that may be full."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from agents.errors import JournalError
from agents.regular_files import open_regular

_BLOCK_BYTES = 4096


class Journal(JournalFileBackend):
    """Optuna's file of changes, a line each, which has whole lines only.

    Optuna's own one keeps the start of a line that the disk has no room for, and goes on after it:
    the file can't be read from there on.
    """

    def __init__(self, path: Path, lock: Path):
        """Creates the file if it is missing.

        Args:
          path: The file.
          lock: Path of its lock.

        Raises:
          OSError: One of them can't be created.
        """
        super().__init__(str(path), FileLock(lock))
        self._path = path

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Yields changes from a number on."""
        with self._locked():  # A line may be taken back until it is written.
            logs = [*super().read_logs(log_number_from)]
        yield from logs

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends changes, or nothing of them.

        Raises:
          JournalError: They can't be written.
        """
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        try:
            with self._locked():
                descriptor = open_regular(self._path, os.O_RDWR)
                try:
                    _append(descriptor, lines)
                finally:
                    os.close(descriptor)
        except OSError as error:
            raise JournalError(f"can't write {self._path}: {error.strerror}") from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()


class FileLock(JournalFileOpenLock):
    """A lock that is free when its owner ends, however; Optuna's stay for 30 seconds."""

    def __init__(self, path: Path):
        """Opens the lock's file."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def acquire(self) -> bool:
        """Waits for the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Releases the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)


def _append(descriptor: int, lines: bytes) -> None:
    """Writes whole lines after the last whole one, or nothing of them."""
    end, written = _end_of_lines(descriptor), 0
    os.ftruncate(descriptor, end)  # A process was killed while it wrote what follows.
    try:
        while written < len(lines):
            written += os.pwrite(descriptor, lines[written:], end + written)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _end_of_lines(descriptor: int) -> int:
    """Returns the size of a file without a last line that has no line break."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(end - _BLOCK_BYTES, 0)
        place = os.pread(descriptor, end - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
