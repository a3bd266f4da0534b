"""What a sweep knows about a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agents.types import PlainData

COMPLETE, PRUNED, FAILED, RUNNING = STATES = ("complete", "pruned", "failed", "running")


class TrialResult(NamedTuple):
    """A trial and its score.

    Attributes:
      number: Counts from 0.
      state: `complete`; `pruned`, before its last step; `failed`; or `running`, which includes
        trials that were interrupted.
      score: Mean return of the last evaluation; None before the first one.
      step: Environment steps trained until that evaluation.
      settings: The settings that the sweep varies.
      cause: Why it has failed, or could not be trained with its settings; empty otherwise.
    """

    number: int
    state: str
    score: float | None
    step: int
    settings: Mapping[str, PlainData]
    cause: str = ""

    @property
    def name(self) -> str:
        """Name of the folder of its run."""
        return trial_name(self.number)


def trial_name(number: int) -> str:
    """Returns the name of a trial's folder."""
    return f"trial-{number:04d}"


def best_first(results: Iterable[TrialResult]) -> list[TrialResult]:
    """Sorts trials: complete ones by falling score, then others by state and falling score."""

    def order(result: TrialResult) -> tuple[int, bool, float, int]:
        missing = result.score is None
        return STATES.index(result.state), missing, -(result.score or 0.0), result.number

    return sorted(results, key=order)
