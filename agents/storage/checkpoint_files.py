"""Checkpoint files: written completely or not at all, listed with checksums, verified when read.

A checkpoint is a file `step-<N>.npz` of arrays by name, not compressed. `manifest.json` lists sizes
and checksums. Nothing in them can be executed, and no TensorFlow is needed, except for checkpoints
of earlier versions, which TensorFlow wrote (`step-<N>.index` and `step-<N>.data-...`).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agents.errors import UsageError
from agents.regular_files import (
    check_folder,
    check_regular,
    open_regular,
    read_regular,
    sync_folder,
    write_atomically,
)
from agents.storage.checkpoint_archive import (
    CheckpointReader,
    Content,
    DamagedError,
    decode,
    encode,
    read_record,
)
from agents.types import PlainData

KEPT = 5  # The last ones.
KEPT_EARLIER = 5  # Of those before, spread over the training.
AVERAGED = "averaged"  # The averaged weights in the last checkpoint.
BEST = "best"  # The folder of the best checkpoint, in that of the others.
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 100_000
MAX_RECORDS = 20  # Checkpoints in which a record is looked for.

_FILE = re.compile(r"step-(\d{1,18})(\.npz|\.index)")
_LISTED = re.compile(rf"(?:{BEST}/)?step-\d{{1,18}}\.npz")
_TENSORFLOW_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class CheckpointFile(NamedTuple):
    """A checkpoint, which may be damaged or missing.

    Attributes:
      folder: The folder that it is in.
      step: The environment step in its name.
      suffix: `.npz`, or `.index` of a checkpoint that TensorFlow wrote.
      is_best: Whether it is the best one rather than one of the last ones.
    """

    folder: Path
    step: int
    suffix: str
    is_best: bool

    @property
    def path(self) -> Path:
        """The file; of a checkpoint that TensorFlow wrote, the index."""
        return self.folder / f"step-{self.step}{self.suffix}"

    @property
    def num_bytes(self) -> int:
        """Size of the file, or of all files of a checkpoint that TensorFlow wrote."""
        return sum(path.stat().st_size for path in self.folder.glob(f"{self.path.stem}.*"))

    @property
    def listed_name(self) -> str:
        """Its name in the manifest."""
        return f"{BEST}/{self.path.name}" if self.is_best else self.path.name


class Checksum(NamedTuple):
    """Size in bytes and SHA-256 in hexadecimal of a file."""

    num_bytes: int
    sha256: str


Manifest = dict[str, Checksum]  # By name, relative to the folder of the manifest.


def find_files(folder: Path) -> list[CheckpointFile]:
    """Finds the checkpoints in a folder, the last ones before the best, each newest first."""
    found = []
    for is_best, where in ((False, folder), (True, folder / BEST)):
        if not check_folder(where):
            continue
        names = filter(None, map(_FILE.fullmatch, os.listdir(where)))
        files = [CheckpointFile(where, int(name[1]), name[2], is_best) for name in names]
        found += sorted(files, key=lambda file: (file.step, file.suffix), reverse=True)
    return found


def read_manifest(folder: Path) -> Manifest | None:
    """Reads the manifest of a folder of checkpoints; None if it is missing or damaged."""
    check_regular(folder / MANIFEST)
    try:
        content = json.loads(read_regular(folder / MANIFEST, MAX_MANIFEST_BYTES))
        manifest = {name: Checksum(*entry) for name, entry in content["checkpoints"].items()}
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    for name, (num_bytes, sha256) in manifest.items():
        if not (_LISTED.fullmatch(name) and isinstance(num_bytes, int) and isinstance(sha256, str)):
            return None
    return manifest


def is_used(folder: Path, best: bool = True) -> bool:
    """Whether a checkpoint was ever saved in a folder, even if it is damaged or missing now.

    Args:
      folder: The folder of checkpoints.
      best: Whether best ones count.
    """
    if any(best or not file.is_best for file in find_files(folder)):
        return True
    manifest = read_manifest(folder)
    if manifest is None:
        return (folder / MANIFEST).exists()
    return any(best or "/" not in name for name in manifest)


def write(
    folder: Path,
    step: int,
    values: Mapping[str, np.ndarray],
    best: bool,
    record: PlainData = None,
) -> None:
    """Writes and lists a checkpoint, then removes those that it replaces; see `encode`.

    Raises:
      OSError: It can't be written, as on a full disk; earlier checkpoints are still there.
    """
    file = CheckpointFile(folder / BEST if best else folder, step, ".npz", best)
    folder.mkdir(exist_ok=True)  # Not the run's folder: it may have been moved.
    file.folder.mkdir(exist_ok=True)
    manifest = read_manifest(folder) or {}
    if manifest.pop(file.listed_name, None):
        # A crash between two writes must not leave a checksum of what was replaced.
        _write_manifest(folder, manifest)
    data = encode(step, values, record)
    write_atomically(file.path, data)
    kept = [other for other in find_files(folder) if other.is_best != best]
    # Later steps than this one are left of a run that was resumed from before them.
    same = [other for other in find_files(folder) if other.is_best == best and other.step <= step]
    kept += same[:1] if best else _thinned(same)
    names = {other.listed_name for other in kept}
    manifest = {name: checksum for name, checksum in manifest.items() if name in names}
    manifest[file.listed_name] = Checksum(len(data), hashlib.sha256(data).hexdigest())
    _write_manifest(folder, manifest)
    for other in find_files(folder):
        if other not in kept:
            _remove(other)


def spread(steps: Sequence[int], number: int) -> list[int]:
    """Thins ascending steps to a number of them that are spread evenly from 0 to the last one."""
    chosen = list(steps)
    while len(chosen) > number:
        # What is removed leaves the smallest gap; never the last one.
        gaps = [after - before for before, after in zip([0, *chosen], chosen[1:], strict=False)]
        del chosen[gaps.index(min(gaps))]
    return chosen


def read(
    file: CheckpointFile,
    manifest: Manifest,
    sizes: Mapping[str, int] | None = None,
    max_bytes: int | None = None,
) -> Content:
    """Verifies that a checkpoint is as it was written, and reads some of its arrays.

    Args:
      file: The checkpoint.
      manifest: The sizes and checksums of checkpoints; those in the file are checked, too.
      sizes: Names of the arrays to read, with their bytes; larger ones are left out.
      max_bytes: Bytes of a file that it may have, by default any number.

    Raises:
      DamagedError: It is not as it was written, or is missing.
      UsageError: It is a link, pipe, device or folder, or too large.
    """
    check_regular(file.path)
    try:
        if file.suffix == ".index":
            return _read_tensorflow(file.path, sizes or {})
        with CheckpointReader(io.FileIO(open_regular(file.path, os.O_RDONLY))) as opened:
            checksum = manifest.get(file.listed_name)
            _check_size(opened, file.path, checksum, max_bytes)
            _check_sum(opened, checksum)
            return decode(opened, file.step, sizes or {})
    except UsageError:
        raise
    except FileNotFoundError:
        raise DamagedError("missing") from None
    except Exception as error:  # Damage makes the library of archives raise errors of any type.
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise DamagedError(reason) from error


def newest_record(folder: Path) -> dict[str, PlainData]:
    """Returns what the newest checkpoint that can be read says of its run; empty if none does."""
    for file in find_files(folder)[:MAX_RECORDS]:
        with contextlib.suppress(Exception):  # Damage makes the library raise errors of any type.
            with CheckpointReader(io.FileIO(open_regular(file.path, os.O_RDONLY))) as opened:
                record = read_record(opened)
            if isinstance(record, dict):
                return record
    return {}


def newest_intact(
    folder: Path,
    candidates: list[CheckpointFile],
    sizes: Mapping[str, int] | None = None,
    max_bytes: int | None = None,
) -> tuple[CheckpointFile, Content] | None:
    """Returns the first checkpoint that is intact, and its content; warns of those skipped.

    Args:
      folder: The folder of checkpoints.
      candidates: Some of them, in order of preference, see `find_files`.
      sizes: See `read`.
      max_bytes: See `read`.
    """
    manifest = checksums(folder)
    skipped = []
    listed = {file.listed_name for file in candidates}
    missing = [name for name in manifest if name not in listed]
    for file in candidates:
        try:
            content = read(file, manifest, sizes, max_bytes)
        except DamagedError as error:
            skipped.append(f"{file.listed_name} ({error})")
            continue
        newer = [name for name in missing if "/" not in name and _step(name) > file.step]
        skipped += [f"{name} (missing)" for name in newer]
        if skipped:
            warnings.warn(
                f"damaged checkpoints in {folder} are skipped: {', '.join(skipped)}; "
                f"{file.listed_name} is used instead",
                stacklevel=2,
            )
        return file, content
    if skipped or missing:
        warnings.warn(
            f"no checkpoint in {folder} is intact: "
            + ", ".join([*skipped, *(f"{name} (missing)" for name in missing)]),
            stacklevel=2,
        )
    return None


def checksums(folder: Path) -> Manifest:
    """Returns the manifest; warns if it should be there and is not."""
    manifest = read_manifest(folder)
    if manifest is None and any(file.suffix == ".npz" for file in find_files(folder)):
        warnings.warn(
            f"{folder / MANIFEST} is missing or damaged; checkpoints are verified by the checksums "
            "inside of them",
            stacklevel=2,
        )
    return manifest or {}


def _thinned(files: list[CheckpointFile]) -> list[CheckpointFile]:
    """Returns those to keep of checkpoints, newest first: the last ones and some before."""
    last = files[:KEPT]
    earlier = sorted({file.step for file in files[KEPT - 1 :]})  # With the oldest of the last ones.
    chosen = spread(earlier, KEPT_EARLIER + 1)
    return last + [file for file in files[KEPT:] if file.step in chosen]


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    content = {"checkpoints": manifest}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1).encode())


def _step(name: str) -> int:
    return int(name.rpartition("-")[2].partition(".")[0])


def _remove(file: CheckpointFile) -> None:
    file.path.unlink(missing_ok=True)
    if file.suffix == ".index":
        for data in file.folder.glob(f"step-{file.step}.data-*"):
            data.unlink()
        if not any(file.folder.glob("step-*.index")):
            (file.folder / "checkpoint").unlink(missing_ok=True)  # TensorFlow's list of them.
    sync_folder(file.folder)


def _check_size(
    file: CheckpointReader, path: Path, checksum: Checksum | None, max_bytes: int | None
) -> None:
    size = os.fstat(file.fileno()).st_size
    if checksum and size != checksum.num_bytes:
        raise DamagedError(f"{size} bytes instead of {checksum.num_bytes}")
    if max_bytes is not None and size > max_bytes:
        raise UsageError(
            f"the checkpoint {path} does not fit the configuration: it has {size:,} bytes, "
            f"expected at most {max_bytes:,}"
        )


def _check_sum(file: CheckpointReader, checksum: Checksum | None) -> None:
    if checksum is None:
        return
    digest = hashlib.sha256()
    while block := file.read(2**20):
        digest.update(block)
    if digest.hexdigest() != checksum.sha256:
        raise DamagedError("its checksum is wrong")
    file.seek(0)


def _read_tensorflow(path: Path, sizes: Mapping[str, int]) -> Content:
    """Reads a checkpoint of an earlier version, whose names have dots for slashes."""
    import tensorflow as tf

    files = list(path.parent.glob(f"{path.stem}.data-*"))
    for data in files:
        check_regular(data)
    left = sum(data.stat().st_size for data in files)
    reader = tf.train.load_checkpoint(str(path.with_suffix("")))
    names = {name.replace("/", "."): name for name in sizes}
    arrays = {}
    types = reader.get_variable_to_dtype_map()
    for key, shape in reader.get_variable_to_shape_map().items():
        left -= math.prod(shape) * types[key].size
        if left < 0:  # Before memory is allocated for it.
            raise DamagedError("its sizes are wrong")
        if key.endswith(_TENSORFLOW_VALUE) and not key.startswith("save_counter/"):
            # TensorFlow doubles dots.
            name = key.removesuffix(_TENSORFLOW_VALUE).replace("..", ".")
            arrays[names.get(name, name)] = np.asarray(reader.get_tensor(key))
    best = arrays.get("run/best")
    if best is not None:  # It began with -inf.
        arrays["run/best"] = np.maximum(best, np.finfo(np.float64).min)
    return Content(frozenset(arrays), arrays)
