"""Arrays of a whole batch in one block of memory.

Workers write their rows of a block that all processes map; the parent copies all results at once.
"""

from __future__ import annotations

import dataclasses
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from agents.spaces import leaf_spaces
from agents.workers.shared_block import create_anonymous_file, map_file

if TYPE_CHECKING:
    from agents.types import Space

# Bytes. TensorFlow uses arrays with this alignment without copying them.
ALIGNMENT = 64

# Bytes allocated at once for results: an aligned allocation costs as much as copying a step.
CHUNK = 1 << 14


@dataclasses.dataclass(frozen=True)
class Field:
    """One array of a block.

    Attributes:
      shape: Shape of the array, [B, ...].
      dtype: Type of its elements.
      offset: Offset of its first element in the block, in bytes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    def view(self, block: np.ndarray) -> np.ndarray:
        """Returns the array [B, ...] as a view of `block`, uint8 [size]."""
        array: np.ndarray = np.ndarray(self.shape, self.dtype, block, self.offset)
        return array


class Layout:
    """The arrays of a batch and their places in a block.

    To the environments: `action` (a list of leaves, [B, ...]), `mask` [B] bool, `seed` [B] int64
    (-1: none).

    From the environments: `observ` and `final_observ` (lists of leaves, [B, ...]), `reward` [B]
    float64, `terminated` and `truncated` [B] bool, and `info`, an array [B] float64 for every key.
    From the parent, where environments are restarted: `restarted` [B] bool, otherwise None. These
    results are contiguous, from `results_start` to the end.

    Attributes:
      num_envs: Number of environments B.
      size: Bytes of the block.
      results_start: Offset of the first result, in bytes.
    """

    def __init__(
        self,
        num_envs: int,
        observation_space: Space,
        action_space: Space,
        info_keys: Sequence[str] = (),
        restarts: bool = False,
    ):
        """Computes the layout.

        Args:
          num_envs: Number of environments B.
          observation_space: Of one environment.
          action_space: Of one environment.
          info_keys: Keys of numbers in the infos.
          restarts: Whether environments that fail are restarted.
        """
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
        # The last one: workers, which do not write it, need not know of it.
        self.restarted = self._add((), np.bool_) if restarts else None

    @property
    def results(self) -> list[Field]:
        """All results, in their order."""
        flags = [self.reward, self.terminated, self.truncated]
        restarted = [self.restarted] if self.restarted else []
        return [*self.observ, *flags, *self.final_observ, *self.info.values(), *restarted]

    def _add_leaves(self, space: Space) -> list[Field]:
        return [self._add(leaf.shape, leaf.dtype) for leaf in leaf_spaces(space)]

    def _add(self, shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> Field:
        field = Field((self.num_envs, *shape), np.dtype(dtype), self.size)  # [B, ...]
        nbytes = int(np.prod(field.shape)) * field.dtype.itemsize
        self.size += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return field


class Results:
    """The results of the environments as views of a block; names and shapes as in `Layout`."""

    def __init__(self, layout: Layout, block: np.ndarray):
        """Creates the views of `block`, uint8 [size]."""
        self.observ = [field.view(block) for field in layout.observ]  # [B, ...] each.
        self.reward = layout.reward.view(block)  # [B]
        self.terminated = layout.terminated.view(block)  # [B]
        self.truncated = layout.truncated.view(block)  # [B]
        self.final_observ = [field.view(block) for field in layout.final_observ]
        self.info = {key: field.view(block) for key, field in layout.info.items()}  # [B] each.
        self.restarted = None if layout.restarted is None else layout.restarted.view(block)  # [B]


class BatchArrays(Results):
    """All arrays of a layout as views of a block that several processes map.

    The block's file stays open until `close`, for processes that start later, or until the arrays
    are garbage collected. The mapping lasts as long as any view of it.

    Attributes:
      layout: The layout.
      block: The block, uint8 [size], zeros at first.
    """

    def __init__(self, layout: Layout, descriptor: int | None = None):
        """Maps the file `descriptor`, by default a new one."""
        if descriptor is None:
            descriptor = create_anonymous_file(layout.size)
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        block = map_file(descriptor, layout.size)
        super().__init__(layout, block)
        self.layout = layout
        self.action = [field.view(block) for field in layout.action]  # [B, ...] each.
        self.mask = layout.mask.view(block)  # [B]
        self.seed = layout.seed.view(block)  # [B]
        self.block = block
        self._unused = aligned_empty(0)

    @property
    def descriptor(self) -> int:
        """The file's descriptor; raises ValueError if it is closed."""
        if not self._close.alive:
            raise ValueError("The file of these arrays is closed.")
        return self._descriptor

    def close(self) -> None:
        """Closes the file; the arrays stay valid. May be called again."""
        self._close()

    def copy_results(self) -> np.ndarray:
        """Returns a copy of the block, aligned so that TensorFlow uses it without another copy.

        Returns:
          uint8 [size], with the results at their places and arbitrary bytes before them; see
          `Results`.
        """
        size, start = self.layout.size, self.layout.results_start
        if len(self._unused) < size:
            self._unused = aligned_empty(max(size, CHUNK))
        fresh, self._unused = self._unused[:size], self._unused[size:]
        fresh[start:] = self.block[start:size]
        return fresh


class Rows:
    """Views of some rows of a batch's arrays; names as in `Layout`, shapes [N, ...]."""

    def __init__(self, arrays: BatchArrays, rows: slice):
        """Creates the views of `rows`."""
        self.action = [leaf[rows] for leaf in arrays.action]  # [N, ...] each.
        self.mask, self.seed = arrays.mask[rows], arrays.seed[rows]  # [N] each.
        self.observ = [leaf[rows] for leaf in arrays.observ]  # [N, ...] each.
        self.reward = arrays.reward[rows]  # [N]
        self.terminated = arrays.terminated[rows]  # [N]
        self.truncated = arrays.truncated[rows]  # [N]
        self.final_observ = [leaf[rows] for leaf in arrays.final_observ]  # [N, ...] each.
        self.info = {key: numbers[rows] for key, numbers in arrays.info.items()}  # [N] each.


def aligned_empty(size: int) -> np.ndarray:
    """Returns uninitialized bytes, uint8 [size], at a multiple of `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
