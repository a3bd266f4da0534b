"""Arrays of a whole batch in one block of memory that several processes can map.

The block is an anonymous file: it has no name, so nothing is left behind however its processes end. Its descriptor
travels over a socket. Workers write their rows; the parent takes everything that they wrote in a single copy.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import tempfile
from collections.abc import Sequence

import numpy as np
from gymnasium import spaces

from agents.tools.spaces import leaf_spaces

# TensorFlow takes over arrays that start at a multiple of 64 bytes without copying them.
ALIGNMENT = 64

# Bytes of memory for results to get at once: finding an aligned place takes as long as filling it.
CHUNK = 1 << 14


@dataclasses.dataclass(frozen=True)
class Field:
    """One array of the block: its whole shape, its type, and where it starts, in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    def view(self, block: np.ndarray) -> np.ndarray:
        """The array inside of `block`, an array of bytes that starts where the field's block starts."""
        return np.ndarray(self.shape, self.dtype, block, self.offset)


class Layout:
    """Which arrays a batch needs, and where each lies in the block.

    What goes to the environments: `action` (a list of leaves, [B, ...]), `mask` [B] bool, `seed` [B] int64 (-1: none).
    What comes back: `observ` and `final_observ` (lists of leaves, [B, ...]), `reward` [B] float64, `terminated` and
    `truncated` [B] bool, and `info`, a dictionary with an array [B] float64 for every key that is asked for. These lie
    together, from `results_start` to the end.
    """

    def __init__(
        self,
        num_envs: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        info_keys: Sequence[str] = (),
    ):
        """Computes the layout from the spaces of one environment and the names of numbers in its infos."""
        self.num_envs = num_envs
        self.size = 0
        self.action = self._add_leaves(action_space)
        self.mask = self._add((), np.bool_)
        self.seed = self._add((), np.int64)
        self.results_start = self.size
        self.observ = self._add_leaves(observation_space)
        self.reward = self._add((), np.float64)
        self.terminated = self._add((), np.bool_)
        self.truncated = self._add((), np.bool_)
        self.final_observ = self._add_leaves(observation_space)
        self.info = {key: self._add((), np.float64) for key in info_keys}

    def _add_leaves(self, space: spaces.Space) -> list[Field]:
        return [self._add(leaf.shape, leaf.dtype) for leaf in leaf_spaces(space)]

    def _add(self, shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> Field:
        field = Field((self.num_envs, *shape), np.dtype(dtype), self.size)
        nbytes = int(np.prod(field.shape)) * field.dtype.itemsize
        self.size += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return field


class Results:
    """What came back from the environments, as views of a block of bytes; named and shaped as in `Layout`."""

    def __init__(self, layout: Layout, block: np.ndarray):
        """Makes the views."""
        self.observ = [field.view(block) for field in layout.observ]
        self.reward = layout.reward.view(block)
        self.terminated = layout.terminated.view(block)
        self.truncated = layout.truncated.view(block)
        self.final_observ = [field.view(block) for field in layout.final_observ]
        self.info = {key: field.view(block) for key, field in layout.info.items()}


class BatchArrays(Results):
    """All arrays of a layout, as views of a block of bytes that several processes share."""

    def __init__(self, layout: Layout, block: np.ndarray):
        """Makes the views."""
        super().__init__(layout, block)
        self.layout = layout
        self.action = [field.view(block) for field in layout.action]
        self.mask = layout.mask.view(block)
        self.seed = layout.seed.view(block)
        self.block = block
        self._unused = aligned_empty(0)

    def copy_results(self) -> np.ndarray:
        """What came back, as a block of bytes of its own, aligned so that TensorFlow takes it as it is.

        Returns:
          uint8 [size], with the results at their places and arbitrary bytes in front of them; see `Results`.
        """
        size, start = self.layout.size, self.layout.results_start
        if len(self._unused) < size:
            self._unused = aligned_empty(max(size, CHUNK))
        fresh, self._unused = self._unused[:size], self._unused[size:]
        fresh[start:] = self.block[start:size]
        return fresh


def aligned_empty(size: int) -> np.ndarray:
    """Uninitialised bytes [size] that start at a multiple of `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def anonymous_file(size: int) -> int:
    """Descriptor of a new nameless file of zeros that can be mapped; `size` is in bytes."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("agents")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, max(size, 1))
    return descriptor


def map_block(descriptor: int, size: int) -> np.ndarray:
    """The file's first `size` bytes as a shared array of bytes. The descriptor may be closed afterwards."""
    return np.frombuffer(mmap.mmap(descriptor, max(size, 1)), np.uint8)
