"""Training runs over wall clock: their scores, and the file that keeps those that have finished."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

# Finished episodes that a score is the mean of, and times per run at which it is kept.
EPISODES, POINTS = 20, 60


class Episode(NamedTuple):
    """A finished training episode.

    Attributes:
      seconds: When it was reported, since the start of the process.
      steps: Environment steps of the training so far.
      score: Its return, before any normalization or clipping of rewards.
    """

    seconds: float
    steps: int
    score: float


class Point(NamedTuple):
    """A training at some time.

    Attributes:
      seconds: Since the start of the process.
      steps: Environment steps at the last finished episode; 0 before the first.
      episodes: Number of finished episodes.
      score: Mean return of the last `EPISODES` of them, or of all if there are fewer; None if there
        are none.
    """

    seconds: float
    steps: int
    episodes: int
    score: float | None


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
      env: The environment's name in the tables.
      contestant: The library.
      seed: Its seed.
      clock: Seconds that it had, with the start of the process.
      budget: Environment steps that it was told to make, for its schedules.
      points: The training at equal intervals, the last one at `clock`.
      about: Date, machine, load and versions.
    """

    env: str
    contestant: str
    seed: int
    clock: float
    budget: int
    points: tuple[Point, ...]
    about: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def at(self, seconds: float) -> Point:
        """Returns the last point that is not after a time.

        Raises:
          ValueError: There is none.
        """
        before = [point for point in self.points if point.seconds <= seconds]
        if not before:
            raise ValueError(
                f"no point of {self.env}/{self.contestant} at {seconds:g} seconds or before; "
                f"the first is at {self.points[0].seconds:g}"
            )
        return before[-1]


class RunFile:
    """Finished runs, in a JSON file that is written whenever one is added."""

    def __init__(self, path: Path | None = None):
        """Reads the runs that are there; without a path they are kept in memory."""
        self._path = path
        self.runs: list[Run] = []
        if path and path.is_file():
            self.runs = [_from_json(entry) for entry in json.loads(path.read_text())]

    def find(self, env: str, contestant: str, clock: float, seed: int) -> Run | None:
        """Returns a run; None if it has not been made."""
        runs = self.of(env, contestant, clock)
        return next((run for run in runs if run.seed == seed), None)

    def of(self, env: str, contestant: str, clock: float) -> list[Run]:
        """Returns the runs of a library on an environment, of all seeds."""
        wanted = (env, contestant, clock)
        return [run for run in self.runs if (run.env, run.contestant, run.clock) == wanted]

    def add(self, run: Run) -> None:
        """Adds a run; the file is replaced as a whole."""
        self.runs.append(run)
        if self._path:
            lines = [json.dumps(dataclasses.asdict(each)) for each in self.runs]
            new = self._path.with_suffix(".new")
            new.write_text("[\n" + ",\n".join(lines) + "\n]\n")
            new.replace(self._path)


def points_of(episodes: Sequence[Episode], clock: float) -> tuple[Point, ...]:
    """Returns the scores of a training at `POINTS` equal intervals until `clock`."""
    points = []
    for seconds in np.linspace(0.0, clock, POINTS + 1)[1:]:
        finished = [episode for episode in episodes if episode.seconds <= seconds]
        score = float(np.mean([each.score for each in finished[-EPISODES:]])) if finished else None
        steps = finished[-1].steps if finished else 0
        rounded = None if score is None else round(score, 3)
        points.append(Point(round(float(seconds), 3), steps, len(finished), rounded))
    return tuple(points)


def steps_within(episodes: Sequence[Episode], clock: float) -> int:
    """Returns how many steps a training makes within a time, given its first episodes.

    Its speed is that between the first episode and the last one.

    Raises:
      ValueError: Fewer than two of them ended at different times.
    """
    if not episodes or episodes[-1].seconds <= episodes[0].seconds:
        raise ValueError(
            f"expected episodes that end at different times, got {len(episodes)}; let it run longer"
        )
    first, last = episodes[0], episodes[-1]
    speed = (last.steps - first.steps) / (last.seconds - first.seconds)
    return int(last.steps + speed * (clock - last.seconds))


def _from_json(entry: dict[str, object]) -> Run:
    points = tuple(Point(*point) for point in entry.pop("points"))  # type: ignore[attr-defined]
    return Run(points=points, **entry)  # type: ignore[arg-type]
