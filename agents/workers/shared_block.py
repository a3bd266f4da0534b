"""Memory that several processes map: files without a name, of which nothing is left behind."""

from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np


def create_anonymous_file(size: int) -> int:
    """Returns the descriptor of a new file of `size` zero bytes that has no name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("agents")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.truncate(descriptor, max(size, 1))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def map_file(descriptor: int, size: int) -> np.ndarray:
    """Returns a file's first bytes as a shared array, uint8 [size].

    The descriptor may be closed afterwards.
    """
    return np.frombuffer(mmap.mmap(descriptor, max(size, 1)), np.uint8)
