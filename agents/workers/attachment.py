"""The part of a batch's arrays that a host works on."""

from __future__ import annotations

import dataclasses

from agents.shared_memory.shared_arrays import BatchArrays
from agents.shared_memory.shared_block import SharedBlock


@dataclasses.dataclass(frozen=True)
class Attachment:
    """The rows of a batch's arrays that belong to a host.

    Attributes:
      arrays: Arrays [B, ...] of the whole batch.
      block: The memory of the arrays, for processes to map; its descriptor must be open when the
        host attaches.
      start: Row of the host's first environment.
      autoreset: Whether to reset an environment in the step that ends its episode.
    """

    arrays: BatchArrays
    block: SharedBlock
    start: int
    autoreset: bool
