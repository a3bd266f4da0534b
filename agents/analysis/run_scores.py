"""One metric of a run over its steps and minutes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import numpy as np

from agents.analysis.training_time import elapsed_minutes
from agents.storage.metrics_file import read_metrics
from agents.storage.run_directory import RunDirectory
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
