"""The metrics of a run: metrics.jsonl and TensorBoard event files."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from agents.training.event_files import EventFile, remove_events_after
from agents.training.run_directory import RunDirectory


class Metrics:
    """Writes the metrics of a run. Steps are environment steps."""

    def __init__(self, run: RunDirectory, step: int):
        """Opens the files, and removes what an earlier process wrote about steps after `step`.

        A resumed run repeats those steps and would report them twice.
        """
        _remove_lines_after(run.metrics_file, step)
        for folder in (run.train_events, run.eval_events):
            remove_events_after(folder, step)
        self._lines = run.metrics_file.open("a", encoding="utf-8")
        self._train = EventFile(run.train_events)
        self._eval = EventFile(run.eval_events)

    def scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes scalars by tag as one line of metrics.jsonl and as events.

        Tags that start with `eval/` have an event file of their own.
        """
        now = time.time()
        values = {tag: float(value) for tag, value in scalars.items()}
        self._lines.write(json.dumps({"step": step, "wall_time": now, **values}) + "\n")
        self._lines.flush()
        for file, is_eval in ((self._train, False), (self._eval, True)):
            chosen = {
                tag: value for tag, value in values.items() if tag.startswith("eval/") == is_eval
            }
            if chosen:
                file.scalars(step, chosen, now)

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a histogram of all finite elements of each array, by tag, as an event."""
        self._train.histograms(step, arrays)

    def config(self, settings: Mapping[str, object]) -> None:
        """Writes the configuration as a table for TensorBoard's text page."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in settings.items())
        self._train.text(0, "configuration", f"| setting | value |\n|:-|:-|\n{rows}")

    def close(self) -> None:
        """Writes what is buffered and closes the files."""
        self._lines.close()
        self._train.close()
        self._eval.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Reads the lines of a metrics.jsonl: `step`, `wall_time` and scalars by tag.

    A line that a killed process left incomplete is skipped. A file that is missing has no lines.
    """
    rows: list[dict[str, float]] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def _remove_lines_after(path: Path, step: int) -> None:
    """Removes the lines after `step` atomically; creates an empty file if there is none."""
    unfinished = path.parent / "unfinished"
    with unfinished.open("wb") as file:
        for row in read_metrics(path):
            if row["step"] <= step:
                file.write(json.dumps(row).encode() + b"\n")
    unfinished.replace(path)
