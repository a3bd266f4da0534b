"""TensorBoard event files: scalars, histograms, images and text by environment step.

An event file is a sequence of TFRecords, each an `Event` protocol buffer. Files are written, read
and cut here, so that full disks and damage stop nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import google_crc32c
import numpy as np

from agents.regular_files import open_regular
from agents.runs.append_file import AppendFile, cut
from agents.types import PlainData

MAX_RECORD_BYTES = 2**26  # Events have tens of kilobytes.
BUCKETS = 30  # The default of `tf.summary.histogram`.

_FILE_NUMBERS = itertools.count()


class EventFile:
    """A new event file. Steps are environment steps."""

    def __init__(self, folder: Path):
        """Creates the file in `folder`, which is created, but none above it, if it is missing."""
        with contextlib.suppress(OSError):  # A file that can't be opened issues a warning.
            folder.mkdir(exist_ok=True)
        from tensorboard.compat.proto.event_pb2 import Event

        self._make_event = Event
        process = (
            f"{socket.gethostname()}.{os.getpid()}.{next(_FILE_NUMBERS):03}"  # In order of names.
        )
        name = f"events.out.tfevents.{int(time.time()):010d}.{process}"
        event = self._make_event(wall_time=time.time(), file_version="brain.Event:2")
        self._file = AppendFile(folder / name, _frame(event.SerializeToString()))

    def scalars(self, step: int, scalars: Mapping[str, float], wall_time: float) -> None:
        """Writes scalars by tag, as float32; `wall_time` is in seconds since 1970."""
        values = {tag: np.array(value, np.float32) for tag, value in scalars.items()}
        self._add(step, wall_time, "scalars", values)

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a histogram of all finite elements of each array, by tag."""
        values = {tag: histogram(np.asarray(array)) for tag, array in arrays.items()}
        self._add(step, time.time(), "histograms", values)

    def text(self, step: int, tag: str, markdown: str) -> None:
        """Writes a text as Markdown."""
        values = {tag: np.array(markdown.encode(), dtype=object)}
        self._add(step, time.time(), "text", values)

    def summary(self, step: int, summary: object) -> None:
        """Writes what a plugin of TensorBoard has made."""
        self._append(wall_time=time.time(), step=step, summary=summary)

    def graph(self, graph_def: bytes) -> None:
        """Writes a graph for TensorBoard's graph page, as an encoded `GraphDef`."""
        self._append(wall_time=time.time(), graph_def=graph_def)

    def image(self, step: int, tag: str, png: bytes) -> None:
        """Writes an image, which is given as a PNG file."""
        width, height = struct.unpack(">II", png[16:24])  # Of the header, in pixels.
        image = np.array([str(width).encode(), str(height).encode(), png], dtype=object)
        self._add(step, time.time(), "images", {tag: image})

    def close(self) -> None:
        """Closes the file; see `AppendFile.close`."""
        self._file.close()

    def _add(
        self, step: int, wall_time: float, plugin: str, arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Adds one event, with a value of TensorBoard's `plugin` for each tag."""
        values = [
            {
                "tag": tag,
                "metadata": {"plugin_data": {"plugin_name": plugin}},
                "tensor": _tensor(array),
            }
            for tag, array in arrays.items()
        ]
        self._append(wall_time=wall_time, step=step, summary={"value": values})

    def _append(self, **fields: PlainData) -> None:
        """Writes an event of these fields."""
        event = self._make_event(**fields)
        self._file.append(_frame(event.SerializeToString()))


def remove_events_after(folder: Path, step: int) -> int:
    """Cuts all event files of a folder at the first event after `step`, in place.

    They are also cut at the first record that is damaged or incomplete, where readers stop.

    Returns:
      The last step that is left, 0 if there is none.
    """
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    last = 0
    for path in sorted(folder.glob("events.out.tfevents.*")):
        size = 0
        for record in read_records(path):
            try:
                event_step = Event.FromString(record).step
            except DecodeError:
                break
            if event_step > step:
                break
            size, last = size + _FRAME_BYTES + len(record), max(last, event_step)
        cut(path, size)
    return last


_FRAME_BYTES = 16  # Of a record: its length, and checksums of the length and of the data.


def read_records(path: Path) -> Iterator[bytes]:
    """Yields the records of a file, and ends before one that is damaged or incomplete."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        while len(header := file.read(12)) == 12:
            length, checksum = struct.unpack("<QI", header)
            if checksum != masked_crc32c(header[:8]) or length > MAX_RECORD_BYTES:
                return
            record = file.read(length)
            if file.read(4) != struct.pack("<I", masked_crc32c(record)):
                return
            yield record


# By NumPy's characters for float32, float64 and objects; see tensorflow/core/framework/types.proto.
_TYPES = {"f": 1, "d": 2, "O": 7}


def _tensor(array: np.ndarray) -> dict[str, PlainData]:
    """Returns the fields of a `TensorProto`, of a float32, an array of float64, or bytes as objects."""
    tensor: dict[str, PlainData] = {
        "dtype": _TYPES[array.dtype.char],
        "tensor_shape": {"dim": [{"size": size} for size in array.shape]},
    }
    if array.dtype == object:
        tensor["string_val"] = array.ravel().tolist()
    elif not array.shape:
        tensor["float_val"] = [array.item()]
    else:
        tensor["tensor_content"] = array.tobytes()
    return tensor


def _frame(record: bytes) -> bytes:
    """Returns a record as it stands in a file: its length, the data, and checksums of both."""
    length = struct.pack("<Q", len(record))
    checksums = [struct.pack("<I", masked_crc32c(part)) for part in (length, record)]
    return length + checksums[0] + record + checksums[1]


def masked_crc32c(data: bytes) -> int:
    """Returns the checksum of TFRecords, see tensorflow/core/lib/hash/crc32c.h."""
    checksum: int = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) % 2**32


def histogram(array: np.ndarray) -> np.ndarray:
    """Returns rows of left edge, right edge and count, float64 [30, 3], as TensorBoard reads them."""
    elements = array[np.isfinite(array)].astype(np.float64)  # [N]
    low, high = (np.min(elements), np.max(elements)) if elements.size else (0.0, 0.0)
    # NumPy's own margin of 0.5 vanishes next to large numbers.
    margin = 0.5 + 1e-6 * abs(low) if low == high else 0.0
    counts, edges = np.histogram(elements, BUCKETS, (low - margin, high + margin))  # [30], [31]
    return np.stack([edges[:-1], edges[1:], counts], axis=1)
