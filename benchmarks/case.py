"""What is compared with what: cases and their contestants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from benchmarks.machine import cores

OURS, LIMIT = "ours", "limit"

# Keyword arguments of a contestant's function; they travel as JSON.
Settings: TypeAlias = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Contestant:
    """A library, or a variant of it, that runs the workload of a case in a process of its own.

    Attributes:
      name: `ours`, a peer such as `SyncVectorEnv`, or `limit` for the upper bound of this machine.
      function: The generator function that runs it, as `module:function`; see
        `benchmarks.contestant`.
      settings: Keyword arguments of the function.
      cores: Number of processors it may run on; None for all.
      threads: Number of threads that its libraries for linear algebra use; None for their choice.
      peer: Name in `benchmarks.peers.installation` of the Python environment it runs in; by default
        the one that measures.
      tree: Checkout whose code it runs; by default the one that measures.
    """

    name: str
    function: str
    settings: Settings = field(default_factory=dict)
    cores: int | None = None
    threads: int | None = None
    peer: str = ""
    tree: str = ""

    def by_threads(self) -> tuple[Contestant, ...]:
        """Returns variants with one thread and with one per core, the better of which counts."""
        return tuple(
            replace(self, name=f"{self.name}-{_count(number, 'thread')}", threads=number)
            for number in sorted({1, len(cores())})
        )

    def by_cores(self) -> tuple[Contestant, ...]:
        """Returns variants on one core and on all, for libraries without a number of threads."""
        return tuple(
            replace(self, name=f"{self.name}-{_count(number, 'core')}", cores=number)
            for number in sorted({1, len(cores())})
        )


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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
