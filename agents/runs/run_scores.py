"""One metric of a run over its steps and minutes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.types import PlainData

Axis = Literal["steps", "minutes"]


@dataclasses.dataclass(frozen=True)
class RunScores:
    """The points of a run at which a metric was logged.

    Attributes:
      name: The name of the run's folder.
      settings: The run's configuration, as plain data by setting.
      steps: Environment steps of the points, strictly ascending, float64 [N].
      minutes: Minutes of training at the points, see `elapsed_minutes`, float64 [N].
      values: The metric, float64 [N].
      rate: Median of the logged environment steps per second; NaN if there are none.
    """

    name: str
    settings: Mapping[str, PlainData]
    steps: np.ndarray
    minutes: np.ndarray
    values: np.ndarray
    rate: float

    def positions(self, axis: Axis) -> np.ndarray:
        """Returns the steps or the minutes of the points, float64 [N]."""
        return self.steps if axis == "steps" else self.minutes


def read_scores(run: RunDirectory, metric: str) -> RunScores:
    """Reads the points of a run at which a metric was logged, of which there may be none.

    Raises:
      UsageError: The run's configuration is not valid, or its files are no regular ones.
    """
    rows = [row for row in read_metrics(run.metrics_file) if "wall_time" in row]
    minutes = elapsed_minutes(rows)
    points = {  # The last one of a step counts.
        row["step"]: (row["step"], minute, row[metric])
        for row, minute in zip(rows, minutes, strict=True)
        if metric in row
    }
    columns = np.array(sorted(points.values()), np.float64).reshape(-1, 3).T  # [3, N]
    rates = [row["perf/steps_per_second"] for row in rows if "perf/steps_per_second" in row]
    return RunScores(
        name=run.path.resolve().name,
        settings=run.load_config().model_dump(mode="json"),
        steps=columns[0],
        minutes=np.maximum.accumulate(columns[1]),
        values=columns[2],
        rate=float(np.median(rates)) if rates else np.nan,
    )


# More than this, in seconds, and thrice what was expected is a pause before a run was resumed.
_SHORTEST_PAUSE = 60.0


def elapsed_minutes(rows: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Returns the minutes of training until each row was written, without pauses.

    Time starts with the first iteration, which includes compiling. Between two rows lie the
    iterations, whose duration is known from their rate; the duration of an evaluation is expected
    to be the median of the run's. What takes far longer is a pause, and the expected time counts.

    Args:
      rows: The lines of metrics.jsonl that have `wall_time`, in the order of the file.

    Returns:
      Minutes, float64 [N], which never decrease.
    """
    if not rows:
        return np.zeros(0)
    times = np.array([row["wall_time"] for row in rows], np.float64)  # [N]
    steps = np.array([row["step"] for row in rows], np.float64)  # [N]
    rates = np.array([row.get("perf/steps_per_second", 0) for row in rows], np.float64)  # [N]
    seconds = np.diff(times, prepend=times[0])  # [N]
    has_rate = rates > 0
    others = seconds[1:][~has_rate[1:]]  # Of evaluations.
    expected = np.full(len(rows), np.median(others) if others.size else 0.0)
    expected[has_rate] = np.diff(steps, prepend=0.0)[has_rate] / rates[has_rate]
    seconds[0] = expected[0] if has_rate[0] else 0.0
    is_pause = seconds > _SHORTEST_PAUSE + 3 * expected
    # A clock that was set back, or steps that repeat, count as nothing.
    elapsed = np.maximum(np.where(is_pause, expected, seconds), 0.0)
    return np.cumsum(elapsed) / 60
