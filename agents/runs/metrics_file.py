"""The file metrics.jsonl of a run: how it is read, and cut when the run is resumed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from agents.regular_files import open_regular
from agents.runs.append_file import cut

MAX_LINE_BYTES = 2**24  # Lines have a few kilobytes.


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Reads the lines of a metrics.jsonl: `step`, `wall_time` and finite scalars by tag.

    Lines that are incomplete or damaged are skipped. A file that is missing has no lines.

    Raises:
      UsageError: It is no regular file.
    """
    return [row for row in map(_row, _lines(path)) if row]


def remove_lines_after(path: Path, step: int) -> bool:
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


def _lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file with their breaks, up to a line that is too long."""
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            if len(line) == MAX_LINE_BYTES:
                return  # Such as zeros, of which a file may seem to hold terabytes.
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
    """Returns whether float64 holds a value as a number; Python's JSON reads NaN and infinities."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max
