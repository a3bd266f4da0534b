"""What is compared with what: cases and their contestants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OURS, LIMIT = "ours", "limit"


@dataclass(frozen=True)
class Contestant:
    """Someone who does a case's work, in a process of its own.

    Attributes:
      name: `ours`, a peer such as `SyncVectorEnv`, or `limit` for what the machine could do at best.
      function: Where it is, as `module:function`; see `benchmarks.child`.
      settings: Its arguments, as plain data.
      cores: How many processors it may run on; None for all.
    """

    name: str
    function: str
    settings: dict[str, Any] = field(default_factory=dict)
    cores: int | None = None


@dataclass(frozen=True)
class Case:
    """Work that several contestants do in turns.

    Attributes:
      name: Such as `Pendulum-v1/process/32`.
      unit: Of the figures; it decides what the ratios mean, see `benchmarks.summary`.
      contestants: Ours among them.
      rounds: How many are measured.
      seconds: How long each contestant works in a round, where it can choose.
    """

    name: str
    unit: str
    contestants: tuple[Contestant, ...]
    rounds: int = 5
    seconds: float = 1.0
