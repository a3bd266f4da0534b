"""The final checkpoint of a run that is stopped between its scheduled ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from agents import stop_signals
from agents.runs.checkpoint import Checkpoints
from agents.training.learner import Learner


class FinalCheckpoint:
    """A context that saves the last finished iteration when training is stopped in it.

    It saves before anything is closed, which may take seconds.

    Attributes:
      saved_step: Step of the last scheduled checkpoint, which is never replaced; None before.
    """

    def __init__(self, learner: Learner, checkpoints: Checkpoints, saved_step: int | None):
        """Initializes the context; `saved_step` is the step that the run was resumed from."""
        self._learner, self._checkpoints, self.saved_step = learner, checkpoints, saved_step

    @contextlib.contextmanager
    def section(self) -> Iterator[None]:
        """A section of graph calls, see `stop_signals.graph_call`.

        Raises:
          RunLostError: The run's folder is not in place at the end, so that nothing can be logged.
        """
        with stop_signals.graph_call():
            yield
        self._checkpoints.check_in_place()

    def __enter__(self) -> FinalCheckpoint:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            stop_signals.take()
        elif not isinstance(error, GeneratorExit):  # The caller has left the loop.
            return
        self._checkpoints.check_in_place()
        self._learner.undo_rollout()
        if self._learner.step != self.saved_step:
            self._checkpoints.save(self._learner.step)
