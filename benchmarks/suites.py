"""The suites by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from benchmarks import distributed, goals, memory, scaling, startup, stepping, training, update
from benchmarks.case import Case


class Suite(Protocol):
    """A module with the cases of one subject.

    Attributes:
      TITLE: Heading of its section in BENCHMARKS.md.
      INTRO: What is measured and compared.
    """

    TITLE: str
    INTRO: str

    def cases(self, quick: bool) -> list[Case]:
        """Returns the cases; `quick` asks for fewer, with fewer and shorter rounds."""


SUITES: Mapping[str, Suite] = {
    "stepping": stepping,
    "update": update,
    "training": training,
    "startup": startup,
    "memory": memory,
    "scaling": scaling,
    "goals": goals,
    "distributed": distributed,
}
