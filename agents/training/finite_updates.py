"""Updates in which a number is NaN or infinite: they end the training, or are skipped."""

from __future__ import annotations

import warnings

import tensorflow as tf

from agents.errors import NonFiniteError
from agents.graph.algorithm import Algorithm, Report
from agents.learning.nonfinite import describe

# Causes before consequences.
MONITORED = ("observ", "final_observ", "reward", "action", "loss", "gradient")


class FiniteUpdates:
    """Raises an error for updates that are not finite, or skips them.

    Attributes:
      skips: Whether to skip them.
      num_skipped: Skipped updates since this process started.
    """

    def __init__(self, algorithm: Algorithm, num_envs: int, skips: bool):
        """Watches the updates of an algorithm; `num_envs` are the environments of all learners."""
        self._algorithm, self._num_envs = algorithm, num_envs
        self.skips, self.num_skipped = skips, 0

    # In the graph.

    def copies(self) -> dict[str, tf.Tensor]:
        """Copies of the variables before an update that may be undone, without the count of steps."""
        if not self.skips:
            return {}
        return {
            name: tf.identity(variable)
            for name, variable in self._algorithm.variables().items()
            if variable is not self._algorithm.steps
        }

    def undo_nonfinite(self, before: dict[str, tf.Tensor], report: Report) -> tf.Tensor:
        """Restores variables after an update that was not finite.

        Args:
          before: The result of `copies` before the update.
          report: The report of all learners.

        Returns:
          Whether all monitored numbers are finite, and all weights where `skips` is set; bool [].
        """
        is_finite = tf.reduce_all([index < 0 for _, index in report.nonfinite.values()])  # []
        if self.skips:
            variables = self._algorithm.variables()
            # The last minibatch may ruin weights without a loss that shows it.
            floats = [one for one in variables.values() if one.dtype.is_floating]
            is_finite &= tf.reduce_all([tf.reduce_all(tf.math.is_finite(one)) for one in floats])
            for name, value in before.items():
                variables[name].assign(tf.where(is_finite, variables[name], value))
        return is_finite

    # After the graph call.

    def check(self, report: Report, is_finite: tf.Tensor, first_step: int) -> None:
        """Raises an error, or warns of a skipped update, unless all numbers are finite.

        Args:
          report: The report of the update.
          is_finite: The result of `undo_nonfinite`.
          first_step: Environment steps before the rollout.

        Raises:
          NonFiniteError: A number is not finite, and such updates are not skipped.
        """
        if bool(is_finite):
            return
        message = self._describe(report, first_step)
        if not self.skips:
            raise NonFiniteError(message)
        self.num_skipped += 1
        if self.num_skipped & (self.num_skipped - 1) == 0:  # The first, second, fourth, eighth, ...
            warnings.warn(
                f"{message} The update was skipped, number {self.num_skipped} so far.", stacklevel=2
            )

    def _describe(self, report: Report, first_step: int) -> str:
        """Names the first number that is not finite, which caused the others."""
        step_after = int(self._algorithm.steps)
        for name in MONITORED:
            number, index = report.nonfinite.get(name, (0.0, -1))
            if int(index) < 0:
                continue
            if name in ("loss", "gradient"):
                term = "loss" if name == "loss" else "gradient of the loss"
                return f"The {term} is {float(number)} in the update at step {step_after:,}."
            step, env = divmod(int(index), self._num_envs)
            return (
                f"The {name} of environment {env} is {describe(float(number))} at step {step} of "
                f"the rollout that began at step {first_step:,}."
            )
        return f"A weight is NaN or infinite after the update at step {step_after:,}."
