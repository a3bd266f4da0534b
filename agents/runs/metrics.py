"""What a run reports: metrics.jsonl and TensorBoard's event files."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.histogram import metadata as histogram_metadata
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from agents.runs.run_directory import RunDirectory

BUCKETS = 30


class Metrics:
    """Writes numbers where people look for them. Every step is a number of environment steps."""

    def __init__(self, run: RunDirectory, step: int):
        """Goes on after `step`; what an earlier process wrote about later steps is removed.

        A run that is resumed repeats those steps, and would report them twice.
        """
        _cut_lines(run.metrics_file, step)
        for folder in (run.train_events, run.eval_events):
            _cut_events(folder, step)
        self._lines = run.metrics_file.open("a", encoding="utf-8")
        self._train = EventFileWriter(str(run.train_events))
        self._eval = EventFileWriter(str(run.eval_events))

    def scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes one line of metrics.jsonl, and the same scalars for TensorBoard."""
        now = time.time()
        values = {tag: float(value) for tag, value in scalars.items()}
        self._lines.write(json.dumps({"step": step, "wall_time": now, **values}) + "\n")
        self._lines.flush()
        for writer, is_eval in ((self._train, False), (self._eval, True)):
            chosen = [_scalar(tag, value) for tag, value in values.items() if tag.startswith("eval/") == is_eval]
            if chosen:
                writer.add_event(Event(wall_time=now, step=step, summary=Summary(value=chosen)))
                writer.flush()

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes the distribution of all numbers in each array; numbers that are not finite are left out."""
        values = [_histogram(tag, np.asarray(array)) for tag, array in arrays.items()]
        self._train.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._train.flush()

    def config(self, settings: Mapping[str, Any]) -> None:
        """Writes the configuration as a table for TensorBoard's text page."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in settings.items())
        text = np.array(f"| setting | value |\n|:-|:-|\n{rows}".encode(), dtype=object)
        value = _value("configuration", text_metadata.create_summary_metadata("", ""), text)
        self._train.add_event(Event(wall_time=time.time(), step=0, summary=Summary(value=[value])))

    def close(self) -> None:
        """Writes out what is buffered."""
        self._lines.close()
        self._train.close()
        self._eval.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The lines of a metrics.jsonl; one that a killed process left unfinished is passed over."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def _scalar(tag: str, value: float) -> Summary.Value:
    return _value(tag, scalar_metadata.create_summary_metadata("", ""), np.float32(value))


def _histogram(tag: str, array: np.ndarray) -> Summary.Value:
    """Rows of left edge, right edge and count, as TensorBoard's histogram plugin wants them."""
    numbers = array[np.isfinite(array)].astype(np.float64)
    low, high = (numbers.min(), numbers.max()) if numbers.size else (0.0, 0.0)
    margin = 0.5 + 1e-6 * abs(low) if low == high else 0.0  # NumPy's own half is too little for large numbers.
    counts, edges = np.histogram(numbers, BUCKETS, (low - margin, high + margin))
    rows = np.stack([edges[:-1], edges[1:], counts], axis=1)
    return _value(tag, histogram_metadata.create_summary_metadata("", ""), rows)


def _value(tag: str, metadata: SummaryMetadata, data: Any) -> Summary.Value:
    return Summary.Value(tag=tag, metadata=metadata, tensor=make_tensor_proto(data))


def _cut_lines(path: Path, step: int) -> None:
    with _replacing(path) as file:
        for row in read_metrics(path):
            if row["step"] <= step:
                file.write(json.dumps(row).encode() + b"\n")


def _cut_events(folder: Path, step: int) -> None:
    for path in folder.glob("events.out.tfevents.*"):
        with _replacing(path) as file:
            writer = RecordWriter(file)
            for record in RawEventFileLoader(str(path)).Load():
                if Event.FromString(record).step <= step:
                    writer.write(record)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Writes a file so that there is always a whole one, the old or the new."""
    unfinished = path.parent / "unfinished"  # A name that TensorBoard does not take for one of its files.
    with unfinished.open("wb") as file:
        yield file
    unfinished.replace(path)
