"""Files of a replay: a checkpoint adds the rows that are new, and names all files with its rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from agents.regular_files import write_atomically
from agents.runs.checkpoint_files import (
    DIGEST_BYTES,
    CheckpointFile,
    DamagedError,
    digest_of,
    encode,
    read,
)
from agents.types import PlainData

FOLDER = "replay"  # In the folder of checkpoints.
_MAX_BYTES = 2**27  # Of the rows in a file, about.


class SavedReplay(Protocol):
    """Interface of a replay that checkpoints hold: a ring of rows for each of B environments.

    Rows are counted from the first one that was written.

    Attributes:
      num_rows: Rows of an environment in the ring.
      row_bytes: Bytes of a row by the name of an array.
    """

    num_rows: int
    row_bytes: Mapping[str, int]

    def written(self) -> np.ndarray:
        """Rows written so far, int64 [B]; the row after them holds the current observation."""

    def read(self, start: np.ndarray, stop: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays [N, ...] by name: rows `start` to before `stop`, int64 [B], by environment."""

    def write(self, start: np.ndarray, stop: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes what `read` returned; the last row is the current one from then on."""


class ReplayFiles:
    """The replay's files of a run: npz files as checkpoints are, in a folder beside them."""

    def __init__(self, folder: Path, replay: SavedReplay):
        """Starts without files.

        Args:
          folder: The folder of checkpoints.
          replay: Its rows are saved and loaded.
        """
        self._folder, self._replay = folder / FOLDER, replay
        self._entries: list[dict[str, PlainData]] = []  # Of the files that hold the ring's rows.

    def save(self) -> list[dict[str, PlainData]]:
        """Writes the rows since the last file, and returns what a checkpoint records.

        Raises:
          OSError: They can't be written; earlier files are still there.
        """
        replay = self._replay
        written = replay.written()
        stop = written + 1  # With the current observations, which the next file has again.
        oldest = np.maximum(written - replay.num_rows + 1, 0)
        start = oldest
        if self._entries:
            start = np.maximum(np.array(self._entries[-1]["stop"]) - 1, oldest)
        if not self._entries or (start < written).any():
            num_bytes = int((stop - start).sum()) * sum(replay.row_bytes.values())
            self._folder.mkdir(parents=True, exist_ok=True)
            # Two rows of each environment or more in a file: its number is the sum of `last`.
            most = max(int((stop - start).min()) // 2, 1)
            num_files = min(-(-num_bytes // _MAX_BYTES), most)
            bounds = [start + (stop - start) * index // num_files for index in range(num_files + 1)]
            for first, last in zip(bounds, bounds[1:], strict=False):
                file = CheckpointFile(self._folder, int(last.sum()), False)
                data = encode(file.step, replay.read(first, last))
                write_atomically(file.path, data)
                self._entries.append(
                    {"start": first.tolist(), "stop": last.tolist(), "digest": digest_of(data)}
                )
        self._entries = [
            entry for entry in self._entries if (np.array(entry["stop"]) > oldest).any()
        ]
        return list(self._entries)

    def check(self, entries: Sequence[Mapping[str, PlainData]]) -> None:
        """Checks that the files that a checkpoint names are as they were written.

        Raises:
          DamagedError: One is not, is missing, or does not fit the replay; the message names it.
          UsageError: One is a link, pipe, device or folder.
        """
        before = np.zeros_like(self._replay.written())
        for entry in entries:
            start, stop, _ = self._read(entry)
            if (start < before - 1).any() or (stop < before).any() or (stop == before).all():
                raise DamagedError("its list of replay files is not in order")
            before = stop

    def load(self, entries: Sequence[Mapping[str, PlainData]]) -> None:
        """Loads the rows of checked files into the replay.

        Raises:
          DamagedError: A file has changed since.
        """
        for entry in entries:
            self._replay.write(*self._read(entry))
        self._entries = [dict(entry) for entry in entries]

    def remove_others(self, kept: Sequence[Mapping[str, PlainData]]) -> None:
        """Removes the files that no entry names."""
        numbers = {sum(entry["stop"]) for entry in kept}
        for path in self._folder.glob("step-*.npz"):
            if path.name not in {f"step-{number}.npz" for number in numbers}:
                path.unlink(missing_ok=True)

    def _read(
        self, entry: Mapping[str, PlainData]
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Returns the arguments of `SavedReplay.write` for a file."""
        file = CheckpointFile(self._folder, sum(entry["stop"]), False)
        try:
            start, stop = (np.array(entry[name], np.int64) for name in ("start", "stop"))  # [B]
            counts = stop - start if len(start) == len(stop) else np.array(-1)
            if (
                counts.shape != self._replay.written().shape
                or not ((counts >= 0) & (counts <= self._replay.num_rows)).all()
            ):
                raise DamagedError("its rows are not those of the replay")
            sizes = {name: int(counts.sum()) * n for name, n in self._replay.row_bytes.items()}
            content = read(file, sizes)
            with file.path.open("rb") as opened:
                opened.seek(-DIGEST_BYTES, os.SEEK_END)
                if opened.read().decode() != entry["digest"]:
                    raise DamagedError("it is of another run")
            if {name: array.nbytes for name, array in content.arrays.items()} != sizes:
                raise DamagedError("it does not fit the configuration")
        except (DamagedError, OSError) as error:
            raise DamagedError(f"{FOLDER}/{file.path.name}: {error}") from None
        return start, stop, content.arrays


def entries_of(record: Mapping[str, PlainData]) -> list[Mapping[str, PlainData]]:
    """Returns what a checkpoint records of the replay's files; nothing if that is no such list."""
    entries = record.get("replay")
    if isinstance(entries, list) and all(map(_is_entry, entries)):
        return entries
    return []


def _is_entry(value: PlainData) -> bool:
    match value:
        case {"start": list(start), "stop": list(stop), "digest": str()}:
            return all(type(row) is int and 0 <= row < 2**62 for row in (*start, *stop))
    return False
