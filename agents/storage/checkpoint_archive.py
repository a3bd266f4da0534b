"""The archive of a checkpoint: a file `step-<N>.npz` of arrays by name, not compressed.

It also holds a record of the run that it belongs to, `@run.json`: its settings and spaces. Its
comment is a checksum of all that stands before. Earlier versions wrote none; those files are
verified by the checksums that archives have of each array.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from agents.types import PlainData

_MAX_HEADER_BYTES = 20_000  # Of an array.
_MAX_LIST_BYTES = 2**20  # Of an archive's list of members, which have a hundred bytes each.
_STEP, _STEP_MEMBER = "\0step", "@step.npy"  # Names of variables are quoted and have no @.
_RECORD_MEMBER = "@run.json"
MAX_RECORD_BYTES = 2**25
_DIGEST_BYTES = 64  # In hexadecimal, which looks like no part of an archive.


class DamagedError(Exception):
    """A checkpoint is damaged; the message says how."""


class Content(NamedTuple):
    """What a checkpoint holds: the names of all arrays, and those that were read."""

    names: frozenset[str]
    arrays: dict[str, np.ndarray]


class CheckpointReader(io.BufferedReader):
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


def encode(step: int, values: Mapping[str, np.ndarray], record: PlainData = None) -> bytes:
    """Returns the file of a checkpoint; equal values give equal bytes.

    Args:
      step: The environment step that names it.
      values: Arrays by name.
      record: What `read_record` returns; None to leave it out.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        if record is not None:
            archive.writestr(zipfile.ZipInfo(_RECORD_MEMBER), json.dumps(record, allow_nan=False))
        for name, array in {_STEP: np.array(step), **values}.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            filename = _STEP_MEMBER if name == _STEP else f"{quote(name, safe='')}.npy"
            # Without the time of day.
            archive.writestr(zipfile.ZipInfo(filename), member.getvalue())
        archive.comment = bytes(_DIGEST_BYTES)
    data = file.getvalue()[:-_DIGEST_BYTES]
    return data + hashlib.sha256(data).hexdigest().encode()


def decode(file: CheckpointReader, step: int, sizes: Mapping[str, int]) -> Content:
    """Decodes some arrays; raises errors of any type if the file is damaged.

    Args:
      file: The file, at its start.
      step: The environment step that names it.
      sizes: Names of the arrays to read, with their bytes; larger ones are left out.
    """
    total = os.fstat(file.fileno()).st_size
    with _opened(file) as archive:
        members = archive.infolist()
        # What is not compressed takes no more memory than it takes on the disk.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise DamagedError("it is compressed")
        if sum(member.file_size for member in members) > total:
            raise DamagedError("its sizes are wrong")
        if archive.comment and archive.comment != _digest(file, total - _DIGEST_BYTES):
            raise DamagedError("its checksum is wrong")
        if archive.testzip():
            raise DamagedError("a checksum inside of it is wrong")
        named = {_unquoted(member.filename): member for member in members}
        if len(named) != len(members):
            raise DamagedError("an array is there twice")
        limits = {**sizes, _STEP: np.array(step).nbytes}
        arrays = {
            name: _decode_array(archive.read(named[name]))
            for name in limits.keys() & named.keys()
            if named[name].file_size <= limits[name] + _MAX_HEADER_BYTES
        }
    if int(arrays.pop(_STEP)) != step:
        raise DamagedError("it is of another step")
    return Content(frozenset(named) - {_STEP, _RECORD_MEMBER}, arrays)


def read_record(file: CheckpointReader) -> PlainData:
    """Returns the record of the run, None without one; raises errors of any type if it is damaged.

    Nothing else of the file is verified, which may be large.
    """
    with _opened(file) as archive:
        if _RECORD_MEMBER not in archive.namelist():
            return None
        member = archive.getinfo(_RECORD_MEMBER)
        if member.compress_type != zipfile.ZIP_STORED or member.file_size > MAX_RECORD_BYTES:
            raise DamagedError("its record is compressed or too large")
        return json.loads(archive.read(member))


def _opened(file: CheckpointReader) -> zipfile.ZipFile:
    """Reads the list of members, which the library does at once, however long it is."""
    file.limit = _MAX_LIST_BYTES
    archive = zipfile.ZipFile(file)
    file.limit = sys.maxsize
    return archive


def _unquoted(member: str) -> str:
    if member == _RECORD_MEMBER:
        return member
    return _STEP if member == _STEP_MEMBER else unquote(member.removesuffix(".npy"))


def _decode_array(data: bytes) -> np.ndarray:
    """Decodes an array without allocating what its header promises."""
    member = io.BytesIO(data)
    version = np.lib.format.read_magic(member)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, is_fortran, dtype = read_header(member)
    if dtype.hasobject or is_fortran:
        raise DamagedError("an array is of a wrong type")
    return np.frombuffer(data, dtype, offset=member.tell()).reshape(shape)


def _digest(file: CheckpointReader, size: int) -> bytes:
    """Returns the SHA-256 of the first `size` bytes of a file."""
    digest = hashlib.sha256()
    file.seek(0)
    while block := file.read(min(2**20, size)):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest().encode()
