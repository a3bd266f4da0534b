"""Regular files: read and written without following links, and replaced atomically.

A run's folder may come from another user. Its content never makes a command write outside of it
or wait for a pipe or device.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agents.errors import UsageError

UNFINISHED = ".unfinished"  # The suffix of a file until it is complete.


def check_regular(path: Path, in_place: bool = False) -> None:
    """Refuses a link, pipe, device or folder where a regular file is expected.

    Args:
      path: A file, which may be missing.
      in_place: Whether the file will be written in place; then another hard link to it is refused.

    Raises:
      UsageError: It is no regular file.
    """
    status = _status(path)
    if status is not None:
        _refuse_others(path, status, in_place)


def check_folder(path: Path) -> bool:
    """Refuses anything but a folder; returns whether there is one.

    Raises:
      UsageError: It is a link or a file.
    """
    status = _status(path)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path} is {_kind(status)}; expected a folder; remove it to proceed")
    return status is not None


def open_regular(path: Path, flags: int) -> int:
    """Opens a regular file; returns its descriptor. `check_regular` lists refused files.

    Args:
      path: The file.
      flags: As for `os.open`, such as `os.O_RDONLY` or `os.O_WRONLY | os.O_CREAT`.

    Raises:
      UsageError: It is no regular file.
      OSError: It can't be opened.
    """
    in_place = flags & os.O_ACCMODE != os.O_RDONLY
    check_regular(path, in_place)  # Opening a device or pipe may have effects, or wait.
    safe = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags | safe, 0o666)
    try:
        _refuse_others(path, os.fstat(descriptor), in_place)
    except UsageError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Returns the content of a regular file.

    Raises:
      UsageError: It is no regular file, or larger than `max_bytes`.
      OSError: It is missing or can't be read.
    """
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UsageError(f"{path} is larger than {max_bytes:,} bytes")
    return data


def write_atomically(path: Path, data: bytes) -> None:
    """Creates or replaces a file; after a crash it has either the old or the new content.

    If several processes do so at once, the last one's content stays. A link at `path` is replaced,
    not followed.

    Raises:
      OSError: It can't be written, as on a full disk; nothing is left behind.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
    unfinished.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(unfinished, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names that were created, replaced or removed in a folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _status(path: Path) -> os.stat_result | None:
    """Returns the status of a path itself, not of where a link leads; None if it is missing."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _refuse_others(path: Path, status: os.stat_result, in_place: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(
            f"{path} is {_kind(status)}; expected a regular file; remove it to proceed"
        )
    if in_place and status.st_nlink > 1:
        raise UsageError(
            f"{path} has another hard link: writing would change both files\n"
            "replace it with a copy to proceed"
        )


def _kind(status: os.stat_result) -> str:
    """Describes what a path is: 'a symbolic link', 'a named pipe'."""
    kinds = {
        stat.S_IFREG: "a regular file",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(status.st_mode), "a device")
