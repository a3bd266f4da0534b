"""Checkpoints: all variables of a run, from which it resumes as if it had never stopped."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agents.errors import NonFiniteError, UsageError
from agents.runs.checkpoint_files import (
    KEPT,
    CheckpointFile,
    Content,
    DamagedError,
    file_at,
    find_files,
    newest_intact,
    read,
    read_record,
    write,
)
from agents.runs.replay_files import ReplayFiles, SavedReplay, entries_of
from agents.types import PlainData

if TYPE_CHECKING:
    import tensorflow as tf


class Checkpoints:
    """The last five checkpoints of a run, five from before, and the best one.

    They are named after their environment step. Earlier ones are spread over the training. They
    hold variables by name, and nothing that could be executed when they are loaded. Several threads
    may save. The rows of a replay are in files of their own, which the last ones name.
    """

    def __init__(
        self,
        folder: Path,
        variables: dict[str, tf.Variable],
        record: Mapping[str, PlainData] | None = None,
        check_in_place: Callable[[], None] = lambda: None,
        replay: SavedReplay | None = None,
    ):
        """Initializes the checkpoints; neither reads nor writes files.

        Args:
          folder: The folder of checkpoints, in an existing folder.
          variables: All variables of the run, by name.
          record: Settings and spaces in the checkpoints, see `newest_record`.
          check_in_place: Called before each save and after a failure, see
            `RunDirectory.check_in_place`.
          replay: Saved in files of its own, but not with the best checkpoint.
        """
        self._folder, self._variables, self._record = folder, variables, dict(record or {})
        self._replay = ReplayFiles(folder, replay) if replay else None
        self.check_in_place = check_in_place
        self._lock = threading.Lock()

    def save(self, step: int, best: bool = False) -> bool:
        """Saves a checkpoint, completely or not at all.

        Args:
          step: The environment step that names it.
          best: Whether it replaces the best so far rather than the oldest of the last.

        Returns:
          False if it could not be saved, as on a full disk; a warning gives the reason.

        Raises:
          NonFiniteError: A value is NaN or infinite.
          RunLostError: The run's folder is not in place.
        """
        self.check_in_place()
        with self._lock:
            values = {name: variable.numpy() for name, variable in self._variables.items()}
            arrays = {name: _storable(value) for name, value in values.items()}
            for name, value in values.items():
                if value.dtype.kind in "fcV" and not np.isfinite(value).all():
                    raise NonFiniteError(
                        f"The variable {name} has a value that is NaN or infinite at step {step:,}; "
                        "no checkpoint is saved."
                    )
            try:
                record = self._record
                if self._replay and not best:
                    record = {**record, "replay": self._replay.save()}
                write(self._folder, step, arrays, best, record)
            except OSError as error:
                self.check_in_place()  # The folder may have been moved meanwhile.
                loss = "the evaluation does not count as the best"
                if not best:
                    loss = "a stop now loses the steps since the last saved checkpoint"
                warnings.warn(
                    f"the {'best ' if best else ''}checkpoint of step {step:,} could not be saved in {self._folder} "
                    f"({error.strerror or error}); {loss}",
                    stacklevel=2,
                )
                return False
            if self._replay and not best:
                kept = [file for file in find_files(self._folder) if not file.is_best][:KEPT]
                records = (read_record(file) for file in kept)
                self._replay.remove_others(
                    [one for record in records for one in entries_of(record)]
                )
        return True

    def load(self, required: bool = False) -> bool:
        """Loads the last intact checkpoint into the variables, or else the best; all or nothing.

        Damaged checkpoints are skipped with a warning.

        Args:
          required: Whether the run must not start over, even if the folder is empty.

        Returns:
          False if there is no checkpoint.

        Raises:
          UsageError: It does not fit the variables, or none is intact.
        """
        found = newest_intact(self._folder, _sizes(self._variables), self._check_replay)
        if found:
            _assign(*found, self._variables, are_all=True)
            entries = entries_of(read_record(found[0])) if self._replay else []
            if self._replay and entries:
                self._replay.load(entries)
            elif self._replay:  # Of `replay_checkpoints: false`.
                warnings.warn(
                    f"the checkpoint {found[0].path} was saved without its replay: training fills one again, and "
                    "is not exactly as if it had not been stopped",
                    stacklevel=2,
                )
        elif find_files(self._folder):
            refill = ", or resume with --replay-checkpoints=false" if self._replay else ""
            raise UsageError(
                f"no checkpoint in {self._folder} is intact; training would start over\n"
                f"start a new run instead, without --timestamp{refill}"
            )
        elif required:
            raise UsageError(
                f"{self._folder} has no checkpoint, although the run has trained beyond its first: "
                "they could not be saved, or were deleted\n"
                "start a new run instead, without --timestamp"
            )
        return bool(found)

    def _check_replay(self, file: CheckpointFile) -> None:
        """Raises DamagedError if the files of a checkpoint's replay are not as they were written."""
        if not self._replay:
            return
        record = read_record(file)
        if file.is_best or "replay" in record:
            entries = entries_of(record)
            if not entries:
                raise DamagedError("it has no replay")
            self._replay.check(entries)


def restore(path: Path, variables: dict[str, tf.Variable]) -> None:
    """Loads some of a checkpoint's variables.

    Args:
      path: The checkpoint's file without its suffix; see `RunDirectory.checkpoint`.
      variables: By name, as they were given to `Checkpoints`.

    Raises:
      UsageError: It does not fit the variables, or is damaged.
    """
    file = file_at(path)
    if not file:
        raise UsageError(f"the checkpoint {path} is missing")
    try:
        content = read(file, _sizes(variables))
    except DamagedError as error:
        raise UsageError(f"the checkpoint {path} is damaged: {error}") from None
    _assign(file, content, variables, are_all=False)


def _sizes(variables: Mapping[str, tf.Variable]) -> dict[str, int]:
    """Returns the bytes of variables by name."""
    return {name: variable.numpy().nbytes for name, variable in variables.items()}


def _assign(
    file: CheckpointFile, content: Content, variables: dict[str, tf.Variable], are_all: bool
) -> None:
    """Assigns the arrays to the variables; refuses them before if one does not fit.

    Args:
      file: The checkpoint.
      content: Its arrays.
      variables: By name.
      are_all: Whether all other arrays are refused, or only those of the same groups, such as
        `network/policy`.
    """
    missing = [name for name in variables if name not in content.names]
    groups = {_group(name) for name in variables}
    unknown = [
        name
        for name in sorted(content.names - variables.keys())
        if are_all or _group(name) in groups
    ]
    reasons = [f"it has no {_listed(missing)}"] if missing else []
    reasons += [f"it also has {_listed(unknown)}"] if unknown else []
    for name, variable in variables.items():
        now = variable.numpy()
        array = content.arrays.get(name)
        fits = array is not None and (array.shape, array.dtype) == (now.shape, _storable(now).dtype)
        if not reasons and not fits:
            reasons.append(f"its {name} is not {now.dtype}{list(now.shape)}")
    if reasons:
        raise UsageError(
            f"the checkpoint {file.path.with_suffix('')} does not fit the configuration: "
            + "\n".join(reasons)
        )
    for name, variable in variables.items():
        variable.assign(content.arrays[name].view(variable.numpy().dtype))


def _group(name: str) -> str:
    """The first two parts of a variable's name, such as `network/policy`."""
    return "/".join(name.split("/")[:2])


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _storable(array: np.ndarray) -> np.ndarray:
    """Returns the array, C-contiguous; types that NumPy has no name for, as bits."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array
