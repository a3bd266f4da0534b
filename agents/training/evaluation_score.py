"""The score of an evaluation, which training yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.deployment.trained_policy import TrainedPolicy


class EvaluationScore(float):
    """The mean return of an evaluation: a float with metadata.

    Attributes:
      step: Environment steps that were learned from before.
      is_best: Whether no evaluation of the run had a higher mean return before.
      scalars: All scalars of the evaluation, by tag, such as "eval/return_std".
      run: The run's folder; a temporary one if the run is not kept.
    """

    step: int
    is_best: bool
    scalars: Mapping[str, float]
    run: Path
    _make_policy: Callable[[], TrainedPolicy]

    def __new__(
        cls,
        scalars: Mapping[str, float],
        step: int,
        is_best: bool,
        run: Path,
        make_policy: Callable[[], TrainedPolicy],
    ) -> EvaluationScore:
        """Creates a score.

        Args:
          scalars: With "eval/return_mean", the number's value.
          step: See the class.
          is_best: See the class.
          run: See the class.
          make_policy: Returns the policy; called when it is asked for.
        """
        self = super().__new__(cls, scalars["eval/return_mean"])
        self.scalars, self.step, self.is_best, self.run = dict(scalars), step, is_best, run
        self._make_policy = make_policy
        return self

    @property
    def policy(self) -> TrainedPolicy:
        """The policy that is trained; it changes while training continues, checkpoints do not."""
        return self._make_policy()
