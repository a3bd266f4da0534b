"""Checkpoint files: written completely or not at all, and verified when they are read.

A checkpoint is a file `step-<N>.npz` of arrays by name, not compressed, which NumPy reads. It also
holds a record of its run, `@run.json`: settings and spaces. Its last bytes are a checksum of all
others. Nothing in it can be executed, and no TensorFlow is needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from agents.errors import UsageError
from agents.regular_files import check_folder, open_regular, sync_folder, write_atomically
from agents.types import PlainData

KEPT = 5  # The last ones.
KEPT_EARLIER = 5  # Of those before, spread over the training.
AVERAGED = "averaged"  # The averaged weights in the last checkpoint.
BEST = "best"  # The folder of the best checkpoint, in that of the others.
MAX_RECORDS = 20  # Checkpoints in which a record is looked for.
MAX_BYTES = 2**34  # Of a file, so that one that seems to hold terabytes takes no hours to read.

_FILE = re.compile(r"step-(\d{1,18})\.npz")
_MAX_HEADER_BYTES = 20_000  # Of an array.
_MAX_LIST_BYTES = 2**20  # Of an archive's list of members, which have a hundred bytes each.
_MAX_RECORD_BYTES = 2**25
_STEP, _RECORD = "@step.npy", "@run.json"  # Names of variables are quoted and have no @.
DIGEST_BYTES = 64  # In hexadecimal, which looks like no part of an archive.


class DamagedError(Exception):
    """A checkpoint is damaged; the message describes the damage."""


class CheckpointFile(NamedTuple):
    """A checkpoint, which may be damaged.

    Attributes:
      folder: The folder that it is in.
      step: The environment step in its name.
      is_best: Whether it is the best one rather than one of the last ones.
    """

    folder: Path
    step: int
    is_best: bool

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"step-{self.step}.npz"

    @property
    def name(self) -> str:
        """The path in the run's folder of checkpoints."""
        return f"{BEST}/{self.path.name}" if self.is_best else self.path.name


class Content(NamedTuple):
    """Content of a checkpoint: the names of all arrays, and the requested arrays."""

    names: frozenset[str]
    arrays: dict[str, np.ndarray]


class _Reader(io.BufferedReader):
    """Reads a file.

    Attributes:
      limit: The largest number of bytes to read at once.
    """

    limit = sys.maxsize

    def read(self, size: int | None = -1) -> bytes:
        """Reads at most `size` bytes, all that is left if negative."""
        left = os.fstat(self.fileno()).st_size - self.tell()
        if (left if size is None or size < 0 else min(size, left)) > self.limit:
            raise DamagedError("it has too many arrays")
        return super().read(size)


def find_files(folder: Path) -> list[CheckpointFile]:
    """Finds the checkpoints in a folder, the last ones before the best, each newest first."""
    found = []
    for is_best, where in ((False, folder), (True, folder / BEST)):
        if check_folder(where):
            names = filter(None, map(_FILE.fullmatch, os.listdir(where)))
            files = [CheckpointFile(where, int(name[1]), is_best) for name in names]
            found += sorted(files, key=lambda file: file.step, reverse=True)
    return found


def file_at(path: Path) -> CheckpointFile | None:
    """Returns the checkpoint with this path, with or without its suffix; None if there is none."""
    for file in find_files(path.parent):
        if path in (file.path, file.path.with_suffix("")):
            return file
    return None


def write(
    folder: Path,
    step: int,
    values: Mapping[str, np.ndarray],
    best: bool,
    record: Mapping[str, PlainData] | None = None,
) -> None:
    """Writes a checkpoint, then removes the checkpoints that it replaces.

    Args:
      folder: The folder of checkpoints.
      step: The environment step that names it.
      values: Arrays by name.
      best: Whether it replaces the best so far rather than the oldest of the last.
      record: Settings and spaces of the run, see `newest_record`.

    Raises:
      OSError: It can't be written, as on a full disk; earlier checkpoints are still there.
    """
    file = CheckpointFile(folder / BEST if best else folder, step, best)
    folder.mkdir(exist_ok=True)  # Not the run's folder: it may have been moved.
    file.folder.mkdir(exist_ok=True)
    write_atomically(file.path, encode(step, values, record))
    same = [other for other in find_files(folder) if other.is_best == best]
    # Later steps than this one are left of a run that was resumed from before them.
    earlier = [other for other in same if other.step <= step]
    if best:
        kept = earlier[:1]
    else:  # The oldest of the last ones takes part.
        chosen = spread(sorted(file.step for file in earlier[KEPT - 1 :]), KEPT_EARLIER + 1)
        kept = earlier[:KEPT] + [file for file in earlier[KEPT:] if file.step in chosen]
    for other in same:
        if other not in kept:
            other.path.unlink(missing_ok=True)
    sync_folder(file.folder)


def spread(steps: Sequence[int], number: int) -> list[int]:
    """Thins ascending steps to a number of them that are spread evenly from 0 to the last one."""
    chosen = list(steps)
    while len(chosen) > number:
        # What is removed leaves the smallest gap; never the last one.
        gaps = [after - before for before, after in zip([0, *chosen], chosen[1:], strict=False)]
        del chosen[gaps.index(min(gaps))]
    return chosen


def encode(
    step: int, values: Mapping[str, np.ndarray], record: Mapping[str, PlainData] | None = None
) -> bytes:
    """Returns the content of a checkpoint's file; equal values give equal bytes."""
    members = {
        _RECORD: json.dumps(record or {}, allow_nan=False).encode(),
        _STEP: _npy(np.array(step)),
    }
    members |= {_member(name): _npy(array) for name, array in values.items()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # Without the time of day.
        archive.comment = bytes(DIGEST_BYTES)
    data = file.getvalue()[:-DIGEST_BYTES]
    return data + hashlib.sha256(data).hexdigest().encode()


def digest_of(data: bytes) -> str:
    """Returns the checksum at the end of a file's content, see `encode`."""
    return data[-DIGEST_BYTES:].decode()


def _npy(array: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.lib.format.write_array(data, array, version=(1, 0), allow_pickle=False)
    return data.getvalue()


def read(file: CheckpointFile, sizes: Mapping[str, int] | None = None) -> Content:
    """Verifies that a checkpoint is as it was written, and reads some of its arrays.

    Args:
      file: The checkpoint.
      sizes: Names of the arrays to read, with their bytes; larger ones are left out.

    Raises:
      DamagedError: It is not as it was written, or is missing.
      UsageError: It is a link, pipe, device or folder.
    """
    try:
        with _opened(file) as opened:
            _check_digest(opened)
            return _decode(opened, file.step, sizes or {})
    except UsageError:
        raise
    except FileNotFoundError:
        raise DamagedError("missing") from None
    except Exception as error:  # Damage makes the library of archives raise errors of any type.
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise DamagedError(reason) from error


def newest_record(folder: Path) -> dict[str, PlainData]:
    """Returns settings and spaces in the newest checkpoint that can be read; empty without any.

    Nothing else of the file is verified, which may be large.
    """
    for file in find_files(folder)[:MAX_RECORDS]:
        if record := read_record(file):
            return record
    return {}


def read_record(file: CheckpointFile) -> dict[str, PlainData]:
    """Returns the record in a checkpoint; empty if it can't be read. The file is not verified."""
    with contextlib.suppress(Exception):  # As in `read`.
        with _opened(file) as opened, _archive(opened) as archive:
            member = archive.getinfo(_RECORD)
            if member.file_size <= _MAX_RECORD_BYTES:
                return dict(json.loads(_read_member(archive, member)))
    return {}


def newest_intact(
    folder: Path,
    sizes: Mapping[str, int] | None = None,
    check: Callable[[CheckpointFile], None] = lambda _: None,
) -> tuple[CheckpointFile, Content] | None:
    """Returns the last intact checkpoint, or else the best, and its content; None without any.

    Warns about skipped checkpoints.

    Args:
      folder: The folder of checkpoints.
      sizes: See `read`.
      check: Raises DamagedError for a checkpoint of which other files are damaged.
    """
    skipped = []
    for file in find_files(folder):
        try:
            content = read(file, sizes)
            check(file)
        except DamagedError as error:
            skipped.append(f"{file.name} ({error})")
            continue
        if skipped:
            warnings.warn(
                f"damaged checkpoints in {folder} are skipped: {', '.join(skipped)}; "
                f"{file.name} is used instead",
                stacklevel=2,
            )
        return file, content
    if skipped:
        warnings.warn(f"no checkpoint in {folder} is intact: {', '.join(skipped)}", stacklevel=2)
    return None


def _opened(file: CheckpointFile) -> _Reader:
    return _Reader(io.FileIO(open_regular(file.path, os.O_RDONLY)))


def _check_digest(file: _Reader) -> None:
    """Compares the last bytes of a file with the SHA-256 of all before."""
    left = os.fstat(file.fileno()).st_size - DIGEST_BYTES
    if not 0 < left < MAX_BYTES:
        raise DamagedError(f"it has {left + DIGEST_BYTES:,} bytes")
    file.seek(left)
    expected = file.read()
    digest = hashlib.sha256()
    if not re.fullmatch(b"[0-9a-f]*", expected):  # At once, for a large file of zeros.
        raise DamagedError("its checksum is missing")
    file.seek(0)
    while left:
        block = file.read(min(2**20, left))
        digest.update(block)
        left -= len(block)
    if digest.hexdigest().encode() != expected:
        raise DamagedError("its checksum is wrong")


def _archive(file: _Reader) -> zipfile.ZipFile:
    """Reads the list of members, which the library does at once, however long it is."""
    file.limit = _MAX_LIST_BYTES
    archive = zipfile.ZipFile(file)
    file.limit = sys.maxsize
    return archive


def _decode(file: _Reader, step: int, sizes: Mapping[str, int]) -> Content:
    """Decodes some arrays of a file, which may be malicious."""
    with _archive(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        if len(members) != len(archive.infolist()):
            raise DamagedError("an array is there twice")
        limits = {_member(name): size for name, size in sizes.items()}
        arrays = {
            name: _decode_array(_read_member(archive, members[name]))
            for name, limit in {**limits, _STEP: 8}.items()
            if name in members and members[name].file_size <= limit + _MAX_HEADER_BYTES
        }
    if arrays.pop(_STEP) != step:
        raise DamagedError("it is of another step")
    names = members.keys() - {_STEP, _RECORD}
    return Content(
        frozenset(map(_variable, names)),
        {_variable(name): array for name, array in arrays.items()},
    )


def _member(variable: str) -> str:
    return f"{quote(variable, safe='')}.npy"


def _variable(member: str) -> str:
    return unquote(member.removesuffix(".npy"))


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Returns the bytes of a member that is not compressed: no more than it takes on the disk."""
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise DamagedError("it is compressed")
    return archive.read(member)


def _decode_array(data: bytes) -> np.ndarray:
    """Decodes an array without trusting the size in its header."""
    member = io.BytesIO(data)
    if np.lib.format.read_magic(member) != (1, 0):
        raise DamagedError("an array is of a wrong format")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(member)
    if dtype.hasobject or is_fortran:
        raise DamagedError("an array is of a wrong type")
    return np.frombuffer(data, dtype, offset=member.tell()).reshape(shape)
