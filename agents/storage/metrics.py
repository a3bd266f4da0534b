"""The metrics of a run: metrics.jsonl and TensorBoard event files."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agents.regular_files import open_regular
from agents.storage.append_file import AppendFile, cut
from agents.storage.event_files import EventFile, remove_events_after

if TYPE_CHECKING:
    from agents.storage.run_directory import RunDirectory
    from agents.vector.restarts import Restart

MAX_LINE_BYTES = 2**18  # Lines have a few kilobytes.


class Metrics:
    """Writes the metrics of a run. Steps are environment steps.

    What the disk has no room for is kept and written later, see `AppendFile`.
    """

    def __init__(self, run: RunDirectory, step: int):
        """Opens the files, and removes what an earlier process wrote about steps after `step`.

        A resumed run repeats those steps and would report them twice.
        """
        is_complete = _remove_lines_after(run.metrics_file, step)
        for folder in (run.train_events, run.eval_events):
            remove_events_after(folder, step)
        self._lines = AppendFile(run.metrics_file, b"" if is_complete else b"\n")
        self._restarts = AppendFile(run.restarts_file, creates=False)
        self._train = EventFile(run.train_events)
        self._eval = EventFile(run.eval_events)

    def scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes scalars by tag as one line of metrics.jsonl and as events.

        Tags that start with `eval/` have an event file of their own. JSON has no NaN and no
        infinities; the line has null instead.
        """
        now = time.time()
        values = {tag: float(value) for tag, value in scalars.items()}
        line = {tag: value if math.isfinite(value) else None for tag, value in values.items()}
        text = json.dumps({"step": step, "wall_time": now, **line}, allow_nan=False)
        self._lines.append(text.encode() + b"\n")
        for file, is_eval in ((self._train, False), (self._eval, True)):
            chosen = {
                tag: value for tag, value in values.items() if tag.startswith("eval/") == is_eval
            }
            if chosen:
                file.scalars(step, chosen, now)

    def restarts(self, step: int, restarts: Sequence[Restart]) -> None:
        """Writes restarts of environments as lines of restarts.jsonl, with their causes."""
        for restart in restarts:
            cause = restart.cause
            line = {
                "step": step,
                "wall_time": restart.time,
                "environments": restart.rows,
                "cause": str(cause.args[0]),
                "traceback": getattr(cause, "traceback_text", ""),
            }
            self._restarts.append(json.dumps(line).encode() + b"\n")

    def has_evaluation(self, step: int) -> bool:
        """Whether an evaluation at `step` was written, by this process or an earlier one."""
        rows = read_metrics(self._lines.path)
        return any(row["step"] == step and "eval/return_mean" in row for row in rows)

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a histogram of all finite elements of each array, by tag, as an event."""
        self._train.histograms(step, arrays)

    def config(self, settings: Mapping[str, object]) -> None:
        """Writes the configuration as a table for TensorBoard's text page."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in settings.items())
        self._train.text(0, "configuration", f"| setting | value |\n|:-|:-|\n{rows}")

    def close(self) -> None:
        """Writes what the disk had no room for before, and closes the files."""
        self._lines.close()
        self._restarts.close()
        self._train.close()
        self._eval.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Reads the lines of a metrics.jsonl: `step`, `wall_time` and finite scalars by tag.

    Lines that are incomplete or damaged are skipped. A file that is missing has no lines.

    Raises:
      UsageError: It is no regular file.
    """
    return [row for row in map(_row, _lines(path)) if row]


def _lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file with their breaks; parts of a line that is too long, one by one."""
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            yield line


def _row(line: bytes) -> dict[str, float] | None:
    """Decodes a line; None if it is damaged."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        return None
    return {tag: value for tag, value in row.items() if _is_finite(value)}


def _is_finite(value: object) -> bool:
    """Whether a value is a number that a float64 holds; Python's JSON reads NaN and infinities."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max


def _remove_lines_after(path: Path, step: int) -> bool:
    """Cuts the file at the first line after `step`; returns whether it ends with a line break."""
    size, end, is_complete = 0, 0, True
    for line in _lines(path):
        row = _row(line)
        if row and row["step"] > step:
            break
        size += len(line)
        if row or line.endswith(b"\n"):  # Only the end of the file is incomplete otherwise.
            end, is_complete = size, line.endswith(b"\n")
    if path.exists():
        cut(path, end)
    return is_complete
