"""What is compared with what: cases and their contestants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

OURS, LIMIT = "ours", "limit"

# Keyword arguments of a contestant's function; they travel as JSON.
Settings: TypeAlias = Mapping[str, str | int]


@dataclass(frozen=True)
class Contestant:
    """A library, or a variant of it, that runs the workload of a case in a process of its own.

    Attributes:
      name: `ours`, a peer such as `SyncVectorEnv`, or `limit` for the upper bound of this machine.
      function: The generator function that runs it, as `module:function`; see
        `benchmarks.contestant`.
      settings: Keyword arguments of the function.
      cores: Number of processors it may run on; None for all.
      tree: Checkout whose code it runs; by default the one that measures.
    """

    name: str
    function: str
    settings: Settings = field(default_factory=dict)
    cores: int | None = None
    tree: str = ""


@dataclass(frozen=True)
class Case:
    """A workload that several contestants run in turns.

    Attributes:
      name: Such as `Pendulum-v1/process/32`.
      unit: Unit of the figures; it decides what the ratios mean, see `benchmarks.summary`.
      contestants: The contestants, ours first.
      rounds: Number of measured rounds.
      seconds: Duration of one measurement, where the contestant can choose.
    """

    name: str
    unit: str
    contestants: tuple[Contestant, ...]
    rounds: int = 5
    seconds: float = 1.0

    def against(self, name: str, tree: Path) -> Case:
        """Returns the case in which ours competes with itself as of another checkout."""
        ours = self.contestants[0]
        other = replace(ours, name=name, tree=str(tree))
        return replace(self, contestants=(ours, other))
