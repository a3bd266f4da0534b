"""Memory that several processes map.

A block is an anonymous file: it has no name, so nothing is left behind however its processes end.
Its descriptor is sent over a socket.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref

import numpy as np


class SharedBlock:
    """An anonymous file and its mapping into this process.

    The descriptor stays open until `close`, so that processes that start later can map the file as
    well; a block that is garbage collected closes it, too. The mapping lasts as long as any view of
    its bytes.

    Attributes:
      bytes: The mapped file, uint8 [size], zeros at first.
    """

    def __init__(self, size: int):
        """Creates and maps a file of `size` bytes."""
        self._descriptor = create_anonymous_file(size)
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self.bytes = map_file(self._descriptor, size)

    @property
    def descriptor(self) -> int:
        """The file's descriptor; raises ValueError if the block is closed."""
        if not self._close.alive:
            raise ValueError("This block of shared memory is closed.")
        return self._descriptor

    def close(self) -> None:
        """Closes the descriptor; `bytes` stays valid. May be called again."""
        self._close()


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
