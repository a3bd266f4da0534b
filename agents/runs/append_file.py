"""Files that grow by whole records, on disks that may be full."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import deque
from pathlib import Path

from agents.regular_files import check_folder, open_regular

MAX_PENDING_BYTES = 16 * 2**20


class AppendFile:
    """Appends whole records to a file, and keeps records in memory while the disk is full.

    A record that can't be written is written before the next one. The first failure after a success
    issues a warning. Nothing is buffered otherwise. A file that is removed, replaced or shortened
    meanwhile continues at its path, with a warning.
    """

    def __init__(self, path: Path, start: bytes = b"", creates: bool = True):
        """Opens the file, which is created if it is missing; its folder is not.

        Args:
          path: The file.
          start: The first record, if not empty.
          creates: Whether to create the file now instead of with the first record.

        Raises:
          UsageError: It is no regular file, or its folder is no folder.
        """
        self.path = path
        self._descriptor: int | None = None
        self._end = 0  # Of the last whole record, in bytes.
        self._pending: deque[bytes] = deque()
        self._pending_bytes, self._num_lost = 0, 0
        self._is_failing = False
        self._keep(start)
        if creates:
            self._write_pending()

    def append(self, record: bytes) -> None:
        """Writes a record, after earlier ones that are kept in memory."""
        self._keep(record)
        self._write_pending()

    def close(self) -> None:
        """Tries once more to write the kept records, and closes the file."""
        if self._pending:
            self._write_pending()
        num_lost = self._num_lost + len(self._pending)
        if num_lost:
            warnings.warn(f"{num_lost} records of {self.path} could not be written", stacklevel=2)
        self._pending.clear()
        self._num_lost = 0
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _keep(self, record: bytes) -> None:
        if self._pending_bytes + len(record) > MAX_PENDING_BYTES:
            self._num_lost += 1
        elif record:
            self._pending.append(record)
            self._pending_bytes += len(record)

    def _write_pending(self) -> None:
        try:
            descriptor = self._open()
            while self._pending:
                record = self._pending[0]
                self._write(descriptor, record)
                self._end += len(record)
                self._pending_bytes -= len(record)
                self._pending.popleft()
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                warnings.warn(
                    f"can't write {self.path} ({error.strerror}); training continues, and writes "
                    "the missing records as soon as possible",
                    stacklevel=2,
                )
            self._is_failing = True

    def _open(self) -> int:
        """Returns the file's descriptor; opens it if it is not open, or not at its path any more."""
        if self._descriptor is not None:
            status, is_in_place = os.fstat(self._descriptor), False
            with contextlib.suppress(FileNotFoundError):
                is_in_place = os.path.samestat(os.stat(self.path), status)
            if not is_in_place:
                self._warn_of_loss("removed or replaced")
                os.close(self._descriptor)
                self._descriptor = None
            elif status.st_size < self._end:
                self._warn_of_loss("shortened")
                self._end = status.st_size
        if self._descriptor is None:
            check_folder(self.path.parent)
            self._descriptor = open_regular(self.path, os.O_WRONLY | os.O_CREAT)
            self._end = os.fstat(self._descriptor).st_size
        return self._descriptor

    def _warn_of_loss(self, event: str) -> None:
        warnings.warn(
            f"{self.path} was {event} during training; earlier records may be lost, later records are kept",
            stacklevel=2,
        )

    def _write(self, descriptor: int, record: bytes) -> None:
        """Writes a record at the end of the file, completely or not at all."""
        written = 0
        try:
            while written < len(record):
                written += os.pwrite(descriptor, record[written:], self._end + written)
        except OSError:
            os.ftruncate(descriptor, self._end)
            raise


def cut(path: Path, size: int) -> None:
    """Cuts a file to `size` bytes in place, which needs no space on the disk.

    Raises:
      UsageError: It is no regular file, or has another hard link.
    """
    descriptor = open_regular(path, os.O_WRONLY)
    try:
        if os.fstat(descriptor).st_size > size:
            os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)
