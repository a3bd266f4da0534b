"""Checkpoints: everything that a run needs to go on as if it had never stopped."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from agents.tools.errors import UsageError

KEPT = 5


class Checkpoints:
    """The last five checkpoints of a run, named after their step, and the best one.

    They hold variables by name, and nothing that could be executed when they are loaded.
    """

    def __init__(self, folder: Path, variables: dict[str, tf.Variable]):
        """Takes the run's folder for checkpoints, and all variables, by name."""
        self._checkpoint = _checkpoint(variables)
        self._last = tf.train.CheckpointManager(self._checkpoint, str(folder), KEPT, checkpoint_name="step")
        self._best = tf.train.CheckpointManager(self._checkpoint, str(folder / "best"), 1, checkpoint_name="step")

    def save(self, step: int, best: bool = False) -> None:
        """Writes a checkpoint; with `best`, the one that replaces the best so far."""
        (self._best if best else self._last).save(checkpoint_number=step)

    def load(self) -> bool:
        """Reads the last checkpoint into the variables.

        Returns:
          Whether there was one.

        Raises:
          UsageError: It does not fit the variables.
        """
        path = self._last.latest_checkpoint
        if path is None:
            return False
        with _explaining(path):
            self._checkpoint.restore(path).assert_consumed()
        return True


def restore(path: Path, variables: dict[str, tf.Variable]) -> None:
    """Reads some of a checkpoint's variables, and leaves the others in there.

    Args:
      path: The checkpoint's files without their suffixes; see `RunDirectory.checkpoint`.
      variables: By name, as they were given to `Checkpoints`.

    Raises:
      UsageError: It does not fit the variables, or is damaged.
    """
    with _explaining(path):
        _checkpoint(variables).restore(str(path)).assert_existing_objects_matched().expect_partial()


def _checkpoint(variables: dict[str, tf.Variable]) -> tf.train.Checkpoint:
    return tf.train.Checkpoint(**{name.replace("/", "."): variable for name, variable in variables.items()})


@contextlib.contextmanager
def _explaining(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (AssertionError, IndexError, ValueError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise UsageError(f"the checkpoint {path} does not fit the configuration, or is damaged: {reason}") from error


def fingerprint(variables: dict[str, tf.Variable]) -> str:
    """Hash of all values, SHA-256 in hexadecimal: equal if and only if they are equal bit by bit."""
    digest = hashlib.sha256()
    for name in sorted(variables):
        digest.update(name.encode() + variables[name].numpy().tobytes())
    return digest.hexdigest()
