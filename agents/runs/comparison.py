"""Runs in groups of equal settings: learning curves over seeds, with statistics, and tables."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from agents.errors import printable
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.runs.score_text import score_text
from agents.settings.validation import as_text
from agents.types import PlainData

Axis = Literal["steps", "minutes"]
CONFIDENCE = 0.95
NUM_RESAMPLES = 2000
UNDIVIDED = "all runs"  # The label of a group beside which there is no other.
# Settings that change neither what a run learns nor its scores.
_WITHOUT_INFLUENCE = {
    "checkpoint_interval",
    "eval_interval",
    "info_keys",
    "log_interval",
    "histogram_interval",
    "video_interval",
    "step_timeout",
    "start_timeout",
}
_DIGITS = 6  # Of settings in labels.
_MAX_POSITIONS = 1000  # Of a curve; over minutes, each evaluation of each run has its own.
# How often the interval of so few seeds misses, by simulation with normally distributed scores.
_MISSES = {2: "50 %", 3: "25 %", 4: "12 %"}
# More than this, in seconds, and thrice what was expected is a pause before a run was resumed.
_SHORTEST_PAUSE = 60.0


@dataclasses.dataclass(frozen=True)
class RunScores:
    """The points of a run at which a metric was logged.

    Attributes:
      name: The name of the run's folder.
      settings: The run's configuration, as plain data by setting, see `Config.settings`.
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
        settings=run.load_config().settings(),
        steps=columns[0],
        minutes=np.maximum.accumulate(columns[1]),
        values=columns[2],
        rate=float(np.median(rates)) if rates else np.nan,
    )


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
    # The first row may be an evaluation's: the iterations before it have the rate of the next report.
    seconds[0] = expected[0] = steps[0] / rates[has_rate][0] if has_rate.any() else 0.0
    is_pause = seconds > _SHORTEST_PAUSE + 3 * expected
    # A clock that was set back, or steps that repeat, count as nothing.
    elapsed = np.maximum(np.where(is_pause, expected, seconds), 0.0)
    return np.cumsum(elapsed) / 60


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Returns the mean of the middle half of scores [..., S], over their last axis: [...].

    A quarter of the scores, rounded down, is dropped at either end, so that of fewer than four
    scores it is the mean. See Agarwal et al. (2021), https://arxiv.org/abs/2108.13264.
    """
    num_scores = scores.shape[-1]
    num_dropped = num_scores // 4
    middle = np.sort(scores, axis=-1)[..., num_dropped : num_scores - num_dropped]
    means: np.ndarray = middle.mean(axis=-1)
    return means


def bootstrap_interval(
    scores: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray] = interquartile_mean
) -> tuple[float, float]:
    """Returns a 95 % confidence interval of a statistic of scores [S].

    It is the percentile interval of 2,000 samples of the scores, drawn with replacement: the same
    draws in every call. Of few seeds it is rough: with three, it is the range of the scores.

    Args:
      scores: The scores [S].
      statistic: Function of scores [..., S] that returns the statistic of each S of them, [...].

    Returns:
      The lower and the upper end; NaN for less than two scores.
    """
    num_scores = len(scores)
    if num_scores < 2:
        return np.nan, np.nan
    draws = np.random.default_rng(0).integers(num_scores, size=(NUM_RESAMPLES, num_scores))
    values = statistic(scores[draws])  # [NUM_RESAMPLES]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only, and their learning curve.

    Attributes:
      env: Their environment.
      label: The settings that tell groups apart, such as "learning_rate=0.001, discount=0.95".
      runs: The runs, one for each seed.
      axis: What the runs are aligned by.
      positions: Steps or minutes of all points of the runs, or 1,000 of them, ascending, float64 [N].
      iqm: Interquartile mean over the runs that reach the position, float64 [N].
      low: Lower end of its 95 % bootstrap interval, NaN for a single run, float64 [N].
      high: Upper end, float64 [N].
      num_seeds: Number of runs that reach the position, int64 [N].
    """

    env: str
    label: str
    runs: Sequence[RunScores]
    axis: Axis
    positions: np.ndarray
    iqm: np.ndarray
    low: np.ndarray
    high: np.ndarray
    num_seeds: np.ndarray

    @property
    def is_complete(self) -> np.ndarray:
        """Points at which as many runs as ever have a value, bool [N]."""
        is_complete: np.ndarray = self.num_seeds == self.num_seeds.max()
        return is_complete

    @property
    def last(self) -> int:
        """Index of the last complete position, at which groups are compared in a table."""
        return int(np.flatnonzero(self.is_complete)[-1])

    @property
    def best(self) -> float:
        """The highest interquartile mean over complete positions."""
        return float(self.iqm[self.is_complete].max())

    @property
    def progress(self) -> tuple[float, float]:
        """Environment steps and minutes of training by the last complete position, mean of runs."""
        position = self.positions[self.last]
        progress = [
            [
                np.interp(position, run.positions(self.axis), axis)
                for axis in (run.steps, run.minutes)
            ]
            for run in self.runs
        ]  # [S, 2]
        steps, minutes = np.mean(progress, axis=0)
        return float(steps), float(minutes)

    @property
    def rate(self) -> float:
        """Environment steps per second, mean of the runs' medians."""
        return float(np.mean([run.rate for run in self.runs]))


def compare_runs(runs: Sequence[RunScores], axis: Axis = "steps") -> list[Group]:
    """Groups runs of an environment by their algorithm and the settings that differ within it.

    The seed, and settings that have no influence on scores, do not count.
    Floats differ if their first six digits do. Scores between two points of a run are interpolated
    linearly; none are added before its first point or after its last. Of runs with equal settings
    and seed, which are equal, the longest one counts; a warning names the others.

    Args:
      runs: Runs that have at least one point each.
      axis: What to align their points by.

    Returns:
      The groups, in the order of environments and of the settings' values.
    """
    envs: dict[str, list[RunScores]] = {}
    for run in runs:
        envs.setdefault(run.settings["env"], []).append(run)
    return [
        _group(env, label, _distinct(equal), axis)
        for env, same in sorted(envs.items())
        for label, equal in _split(same).items()
    ]


def _split(runs: Sequence[RunScores]) -> dict[str, list[RunScores]]:
    """Returns the groups of an environment's runs by label, in the order of algorithms and values."""
    algorithms = sorted({run.settings["algorithm"] for run in runs})
    groups = {}
    for algorithm in algorithms:
        names = [f"algorithm={algorithm}"] if len(algorithms) > 1 else []
        same = [run for run in runs if run.settings["algorithm"] == algorithm]
        for differing, equal in _split_by_settings(same).items():
            groups[", ".join([*names, *differing]) or UNDIVIDED] = equal
    return groups


def _split_by_settings(runs: Sequence[RunScores]) -> dict[tuple[str, ...], list[RunScores]]:
    """Returns groups of runs of one algorithm by the settings that differ, such as "discount=0.9".

    Where each seed goes on with a run of its own, these are no settings that differ.
    """
    pairs = {
        (run.settings["seed"], run.settings["initial_weights"])
        for run in runs
        if run.settings["initial_weights"]
    }
    seeds, sources = ({pair[index] for pair in pairs} for index in range(2))
    have_own = len(pairs) == len(seeds) == len(sources) > 1

    def value(run: RunScores, name: str) -> PlainData:
        is_seed = have_own and name == "initial_weights"
        return bool(run.settings[name]) if is_seed else run.settings[name]

    def text(run: RunScores, name: str) -> str:
        return f"{name}={as_text(value(run, name), _DIGITS)}"

    names = [
        name
        for name in runs[0].settings
        if name not in {"seed", *_WITHOUT_INFLUENCE} and len({text(run, name) for run in runs}) > 1
    ]
    groups: dict[tuple[str, ...], list[RunScores]] = {}
    for run in sorted(runs, key=lambda run: [_rank(value(run, name)) for name in names]):
        groups.setdefault(tuple(text(run, name) for name in names), []).append(run)
    return groups


def _group(env: str, label: str, runs: Sequence[RunScores], axis: Axis) -> Group:
    """Aligns the runs of a group, and computes its curve."""
    positions = np.unique(np.concatenate([run.positions(axis) for run in runs]))
    chosen = np.linspace(0, len(positions) - 1, min(len(positions), _MAX_POSITIONS))
    positions = positions[chosen.round().astype(int)]  # [N]
    scores = [
        np.interp(positions, run.positions(axis), run.values, left=np.nan, right=np.nan)
        for run in runs
    ]  # [S] arrays [N]
    columns = [column[~np.isnan(column)] for column in np.stack(scores, axis=1)]
    low, high = np.array([bootstrap_interval(column) for column in columns]).T  # [N], [N]
    iqm = np.array([interquartile_mean(column) for column in columns])  # [N]
    num_seeds = np.array([len(column) for column in columns])  # [N]
    return Group(env, label, runs, axis, positions, iqm, low, high, num_seeds)


def _distinct(runs: Sequence[RunScores]) -> list[RunScores]:
    """Returns the longest run of each seed, in the order of seeds; the same one twice is one."""
    longest: dict[tuple[int, str], RunScores] = {}
    for run in sorted(runs, key=lambda run: (run.settings["seed"], -run.steps[-1])):
        kept = longest.setdefault((run.settings["seed"], run.settings["initial_weights"]), run)
        if kept is not run:
            warnings.warn(
                f"{run.name} is left out: {kept.name} has the same settings and seed, and is as long "
                "or longer",
                stacklevel=3,
            )
    return list(longest.values())


def _rank(value: PlainData) -> tuple[bool, float, str]:
    """Returns what values are sorted by: numbers by their size, others by their text."""
    is_number = isinstance(value, int | float)
    return (False, value, "") if is_number else (True, 0.0, as_text(value))


def table_lines(groups: Sequence[Group], metric: str) -> list[str]:
    """Returns the lines of a table: the last scores of each group, with their steps and minutes."""
    lines = []
    for env in dict.fromkeys(group.env for group in groups):
        header = ("seeds", "last [95 % interval]", "best", "steps", "minutes", "steps/s", "group")
        rows = [header, *(_row(group) for group in groups if group.env == env)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines.append(printable(f"{env}, interquartile mean of {metric}:"))
        for *cells, label in rows:
            aligned = [cell.rjust(width) for cell, width in zip(cells, widths, strict=False)]
            lines.append(printable("  ".join(["", *aligned, label])))
    few = sorted({int(group.num_seeds.max()) for group in groups} & _MISSES.keys())
    lines += [
        f"The interval of {seeds} seeds is too narrow: it misses the true value in about "
        f"{_MISSES[seeds]} of cases instead of 5 %."
        for seeds in few
    ]
    envs = [group.env for group in groups]
    if any(envs.count(group.env) > 1 and group.num_seeds.max() == 1 for group in groups):
        lines.append("One seed has no interval: its difference from other groups may be chance.")
    return lines


def _row(group: Group) -> tuple[str, ...]:
    """Returns the cells of a group's row."""
    low, high = group.low[group.last], group.high[group.last]
    interval = "no interval" if math.isnan(low) else f"{score_text(low)}, {score_text(high)}"
    steps, minutes = group.progress
    return (
        _seeds(group),
        f"{score_text(group.iqm[group.last])} [{interval}]",
        score_text(group.best),
        f"{steps:,.0f}",
        f"{minutes:.1f}",
        "" if math.isnan(group.rate) else f"{group.rate:,.0f}",
        group.label,
    )


def _seeds(group: Group) -> str:
    """Returns how many runs the last scores are of: all, or such as "2 of 3" if no position has all."""
    most = group.num_seeds.max()
    return str(most) if most == len(group.runs) else f"{most} of {len(group.runs)}"


def csv_text(groups: Sequence[Group]) -> str:
    """Returns the text of a CSV file, a row for each group and position."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["env", "group", groups[0].axis, "iqm", "low", "high", "seeds"])
    for group in groups:
        columns = (group.positions, group.iqm, group.low, group.high, group.num_seeds)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            writer.writerow([group.env, group.label, *map(_cell, row)])
    return text.getvalue()


def _cell(value: float) -> str:
    """Returns a number that can be read back exactly; nothing for NaN."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value == int(value) else str(value)
