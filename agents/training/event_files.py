"""TensorBoard event files: scalars, histograms and text by environment step.

An event file is a sequence of TFRecords, each an `Event` protocol buffer. TensorBoard's functions
for them are private: all come from `load_event_library`, which falls back to TensorFlow's public
ones.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from agents.types import PlainData

BUCKETS = 30  # The default of `tf.summary.histogram`.

_FILE_NUMBERS = itertools.count()


class EventFile:
    """A new event file. Steps are environment steps."""

    def __init__(self, folder: Path):
        """Creates the file in `folder`, which is created if it is missing."""
        self._library = load_event_library()
        self._writer = self._library.open_writer(str(folder))

    def scalars(self, step: int, scalars: Mapping[str, float], wall_time: float) -> None:
        """Writes scalars by tag, as float32; `wall_time` is in seconds since 1970."""
        values = {tag: np.float32(value) for tag, value in scalars.items()}
        self._add(step, wall_time, "scalars", values)
        self._writer.flush()

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a histogram of all finite elements of each array, by tag."""
        values = {tag: _histogram(np.asarray(array)) for tag, array in arrays.items()}
        self._add(step, time.time(), "histograms", values)
        self._writer.flush()

    def text(self, step: int, tag: str, markdown: str) -> None:
        """Adds a text to the file's buffer; it is written along with the next scalars."""
        values = {tag: np.array(markdown.encode(), dtype=object)}
        self._add(step, time.time(), "text", values)

    def close(self) -> None:
        """Writes what is buffered and closes the file."""
        self._writer.close()

    def _add(
        self, step: int, wall_time: float, plugin: str, arrays: Mapping[str, ArrayLike]
    ) -> None:
        """Adds one event, with a value of TensorBoard's `plugin` for each tag."""
        values = [
            {
                "tag": tag,
                "metadata": {"plugin_data": {"plugin_name": plugin}},
                "tensor": self._library.make_tensor(array),
            }
            for tag, array in arrays.items()
        ]
        self._writer.add_event(
            self._library.make_event(wall_time=wall_time, step=step, summary={"value": values})
        )


def remove_events_after(folder: Path, step: int) -> None:
    """Removes the events after `step` from all event files of a folder, each atomically.

    A record that a killed process left incomplete, and any that follow, are removed, too.
    """
    library = load_event_library()
    for path in folder.glob("events.out.tfevents.*"):
        unfinished = path.parent / "unfinished"  # TensorBoard does not read a file of this name.
        records = library.read_records(path)
        library.write_records(
            unfinished,
            (record for record in records if library.make_event.FromString(record).step <= step),
        )
        unfinished.replace(path)


class Event(Protocol):
    """The fields of an `Event` protocol buffer that are read here."""

    step: int

    def SerializeToString(self) -> bytes:
        """Encodes the event."""


class EventClass(Protocol):
    """The class of `Event` protocol buffers."""

    def __call__(self, **fields: PlainData) -> Event:
        """Makes an event; a dictionary stands for a message in it."""

    def FromString(self, data: bytes) -> Event:
        """Decodes an event."""


class EventWriter(Protocol):
    """Appends events to a file."""

    def add_event(self, event: Event) -> None:
        """Adds an event to the file's buffer."""

    def flush(self) -> None:
        """Writes the buffer to the file."""

    def close(self) -> None:
        """Flushes and closes the file."""


TensorProto: TypeAlias = object


class EventLibrary(NamedTuple):
    """Functions that read and write event files; those of all libraries write the same records.

    Attributes:
      make_event: The class of events.
      make_tensor: Makes a `TensorProto` of an array.
      open_writer: Starts a new event file in a folder, which is created if it is missing.
      read_records: Yields the records of a file; it ends before one that is incomplete.
      write_records: Writes records to a file.
    """

    make_event: EventClass
    make_tensor: Callable[[ArrayLike], TensorProto]
    open_writer: Callable[[str], EventWriter]
    read_records: Callable[[Path], Iterator[bytes]]
    write_records: Callable[[Path, Iterable[bytes]], None]


def load_event_library() -> EventLibrary:
    """Imports TensorBoard's functions, or TensorFlow's where TensorBoard has moved its own."""
    try:
        return _tensorboard_library()
    except ImportError:
        return _tensorflow_library()


def _tensorboard_library() -> EventLibrary:
    """Returns private functions of TensorBoard, whose writer has a thread of its own."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.summary.writer.record_writer import RecordWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    def read_records(path: Path) -> Iterator[bytes]:
        yield from RawEventFileLoader(str(path)).Load()

    def write_records(path: Path, records: Iterable[bytes]) -> None:
        with path.open("wb") as file:
            writer = RecordWriter(file)
            for record in records:
                writer.write(record)

    return EventLibrary(Event, make_tensor_proto, EventFileWriter, read_records, write_records)


def _tensorflow_library() -> EventLibrary:
    """Returns the same with TensorFlow's public interface."""
    import tensorflow as tf

    def read_records(path: Path) -> Iterator[bytes]:
        records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        while True:
            try:
                yield next(records)
            except (StopIteration, tf.errors.DataLossError):
                return

    def write_records(path: Path, records: Iterable[bytes]) -> None:
        with tf.io.TFRecordWriter(str(path)) as file:
            for record in records:
                file.write(record)

    return EventLibrary(
        tf.compat.v1.Event, tf.make_tensor_proto, _TensorFlowWriter, read_records, write_records
    )


class _TensorFlowWriter:
    """Writes an event file named as TensorBoard's `EventFileWriter` names it."""

    def __init__(self, folder: str):
        """Creates the file and writes the event that states its format."""
        import tensorflow as tf

        os.makedirs(folder, exist_ok=True)
        process = f"{socket.gethostname()}.{os.getpid()}.{next(_FILE_NUMBERS)}"
        name = f"events.out.tfevents.{int(time.time()):010d}.{process}"
        self._records = tf.io.TFRecordWriter(os.path.join(folder, name))
        self.add_event(tf.compat.v1.Event(wall_time=time.time(), file_version="brain.Event:2"))
        self.flush()

    def add_event(self, event: Event) -> None:
        self._records.write(event.SerializeToString())

    def flush(self) -> None:
        self._records.flush()

    def close(self) -> None:
        self._records.close()


def _histogram(array: np.ndarray) -> np.ndarray:
    """Returns rows of left edge, right edge and count, float64 [30, 3], as TensorBoard reads them."""
    elements = array[np.isfinite(array)].astype(np.float64)  # [N]
    low, high = (np.min(elements), np.max(elements)) if elements.size else (0.0, 0.0)
    # NumPy's own margin of 0.5 vanishes next to large numbers.
    margin = 0.5 + 1e-6 * abs(low) if low == high else 0.0
    counts, edges = np.histogram(elements, BUCKETS, (low - margin, high + margin))  # [30], [31]
    return np.stack([edges[:-1], edges[1:], counts], axis=1)
