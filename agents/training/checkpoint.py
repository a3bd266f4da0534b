"""Checkpoints: all variables of a run, from which it resumes as if it had never stopped."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from agents.errors import UsageError

KEPT = 5


class Checkpoints:
    """The last five checkpoints of a run, named after their environment step, and the best one.

    They hold variables by name, and nothing that could be executed when they are loaded.
    """

    def __init__(self, folder: Path, variables: dict[str, tf.Variable]):
        """Saves to and loads from `folder`; `variables` are all variables of the run, by name."""
        self._checkpoint = _checkpoint(variables)
        self._last = tf.train.CheckpointManager(
            self._checkpoint, str(folder), KEPT, checkpoint_name="step"
        )
        self._best = tf.train.CheckpointManager(
            self._checkpoint, str(folder / "best"), 1, checkpoint_name="step"
        )

    def save(
        self, step: int, best: bool = False, values: Mapping[str, np.ndarray] | None = None
    ) -> bool:
        """Saves the variables; with `best`, as the one that replaces the best so far.

        With `values`, arrays by name, those instead of what the variables hold now.
        """
        if values is None:
            (self._best if best else self._last).save(checkpoint_number=step)
        else:
            copies = {name: tf.Variable(value) for name, value in values.items()}
            folder = self._last.directory
            manager = tf.train.CheckpointManager(
                _checkpoint(copies), folder, KEPT, checkpoint_name="step"
            )
            manager.save(checkpoint_number=step)
        return True

    def load(self) -> bool:
        """Loads the last checkpoint into the variables.

        Returns:
          Whether there was one.

        Raises:
          UsageError: It does not fit the variables, or is damaged.
        """
        path = self._last.latest_checkpoint
        if path is None:
            return False
        with _translating_errors(path):
            self._checkpoint.restore(path).assert_consumed()
        return True


def restore(path: Path, variables: dict[str, tf.Variable]) -> None:
    """Loads some of a checkpoint's variables.

    Args:
      path: The checkpoint's files without their suffixes; see `RunDirectory.checkpoint`.
      variables: By name, as they were given to `Checkpoints`.

    Raises:
      UsageError: It does not fit the variables, or is damaged.
    """
    with _translating_errors(path):
        _checkpoint(variables).restore(str(path)).assert_existing_objects_matched().expect_partial()


def fingerprint(variables: dict[str, tf.Variable]) -> str:
    """Returns the SHA-256 of all names and values in hexadecimal, equal for equal bits only."""
    digest = hashlib.sha256()
    for name in sorted(variables):
        digest.update(name.encode() + variables[name].numpy().tobytes())
    return digest.hexdigest()


def _checkpoint(variables: dict[str, tf.Variable]) -> tf.train.Checkpoint:
    """Returns a checkpoint of variables by name, with dots for slashes."""
    return tf.train.Checkpoint(
        **{name.replace("/", "."): variable for name, variable in variables.items()}
    )


@contextlib.contextmanager
def _translating_errors(path: str | Path) -> Iterator[None]:
    """Translates TensorFlow's errors while loading into a usage error of one line."""
    try:
        yield
    except (AssertionError, IndexError, ValueError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise UsageError(
            f"the checkpoint {path} does not fit the configuration, or is damaged: {reason}"
        ) from error
