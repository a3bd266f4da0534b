"""The time that a run was in training, from its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

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
