"""The final checkpoint of a run that is stopped between its scheduled ones."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from agents import stop_signals
from agents.storage.checkpoint import Checkpoints
from agents.training.learner import Learner

# Sections that took longer, in seconds, are entered with a snapshot of the variables.
LONG_SECONDS = 0.25


class Snapshot(NamedTuple):
    """The variables of a run after its last finished iteration.

    Attributes:
      step: Environment steps learned from.
      values: Arrays by name.
    """

    step: int
    values: dict[str, np.ndarray]


class FinalCheckpoint:
    """A context that saves the last finished iteration when training is stopped in it.

    It saves before anything is closed, which may take seconds. Usually the interrupt arrives as an
    exception. Where the main thread stays in a graph call instead, another thread saves the
    variables: a snapshot from before that call, or, if an environment does not return, as they are;
    see `agents.stop_signals`. Copying takes milliseconds, so only long calls get a snapshot.

    Attributes:
      saved_step: Step of the last scheduled checkpoint, which is never replaced; None before.
    """

    def __init__(self, learner: Learner, checkpoints: Checkpoints, saved_step: int | None):
        """Initializes the context; `saved_step` is the step that the run was resumed from."""
        self._learner, self._checkpoints, self.saved_step = learner, checkpoints, saved_step
        self._seconds: dict[str, float] = {}
        self._snapshot: Snapshot | None = None

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """A section of graph calls; its duration decides whether the next one gets a snapshot.

        Raises:
          RunLostError: The run's folder is not in place at the end, so that nothing can be logged.
        """
        is_long = self._seconds.get(name, math.inf) > LONG_SECONDS
        self._snapshot = self._take_snapshot() if is_long else None
        start = time.perf_counter()
        with stop_signals.graph_call(self._save_snapshot):
            yield
        self._seconds[name] = time.perf_counter() - start
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

    def _take_snapshot(self) -> Snapshot:
        values = self._learner.finished_values()  # Waits for an update that is running.
        return Snapshot(self._learner.step, values)

    def _save_snapshot(self) -> None:
        """Saves the snapshot from another thread, while the graph call is running."""
        snapshot = self._snapshot
        if snapshot is None and stop_signals.is_in_python_code():
            # An environment is stuck: as long as it is, nothing is learned.
            snapshot = self._take_snapshot()
            snapshot = snapshot if stop_signals.is_in_python_code() else None
        if snapshot is not None and snapshot.step != self.saved_step:
            self._checkpoints.save(snapshot.step, values=snapshot.values)
