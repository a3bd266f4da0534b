"""Checkpoints: everything that a run needs to go on as if it had never stopped."""

from __future__ import annotations

import hashlib
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
        self._variables = variables
        self._checkpoint = tf.train.Checkpoint(**{name.replace("/", "."): each for name, each in variables.items()})
        self._last = tf.train.CheckpointManager(self._checkpoint, str(folder), KEPT, checkpoint_name="step")
        self._best = tf.train.CheckpointManager(self._checkpoint, str(folder / "best"), 1, checkpoint_name="step")

    def save(self, step: int, best: bool = False) -> None:
        """Writes a checkpoint; with `best`, the one that replaces the best so far."""
        (self._best if best else self._last).save(checkpoint_number=step)

    def load(self, which: str = "last") -> bool:
        """Reads a checkpoint into the variables.

        Args:
          which: `last`, `best`, or the step of one of those kept.

        Returns:
          Whether there was one, for `last`; others must exist.

        Raises:
          UsageError: No such checkpoint, or it does not fit the variables.
        """
        managers = {"last": self._last, "best": self._best}
        path = managers[which].latest_checkpoint if which in managers else self._of_step(which)
        if path is None:
            if which == "last":
                return False
            raise UsageError(f"--checkpoint={which}: no such checkpoint; there are {self._steps() or 'none yet'}")
        try:
            self._checkpoint.restore(path).assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            reason = str(error).strip().splitlines()[0][:200]
            raise UsageError(
                f"the checkpoint {path} does not fit the configuration, or is damaged: {reason}"
            ) from error
        return True

    def _of_step(self, step: str) -> str | None:
        paths = [*self._last.checkpoints, *self._best.checkpoints]
        return next((path for path in paths if path.endswith(f"step-{step}")), None)

    def _steps(self) -> str:
        steps = [path.rsplit("-", 1)[-1] for path in self._last.checkpoints]
        return ", ".join([*steps, *(["best"] if self._best.checkpoints else []), *(["last"] if steps else [])])


def fingerprint(variables: dict[str, tf.Variable]) -> str:
    """Hash of all values, SHA-256 in hexadecimal: equal if and only if they are equal bit by bit."""
    digest = hashlib.sha256()
    for name in sorted(variables):
        digest.update(name.encode() + variables[name].numpy().tobytes())
    return digest.hexdigest()
