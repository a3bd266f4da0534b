"""The suites by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from benchmarks import (
    clock,
    defaults,
    distributed,
    goals,
    images,
    memory,
    sac,
    scaling,
    startup,
    stepping,
    training,
    update,
)
from benchmarks.case import Case
from benchmarks.runner import Outcome, run_case


class Suite(Protocol):
    """A module with the cases of one subject.

    Attributes:
      TITLE: Heading of its section in benchmarks/details.md.
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
    "sac": sac,
    "images": images,
    "startup": startup,
    "memory": memory,
    "scaling": scaling,
    "goals": goals,
    "defaults": defaults,
    "distributed": distributed,
    "clock": clock,
}

RunCase = Callable[[Case, Callable[[str], None]], Outcome]

# Suites that keep their runs, which take hours: they are not part of all suites.
KEEPING: Mapping[str, RunCase] = {"clock": clock.run_case}


def runner_of(suite: str) -> RunCase:
    """Returns what measures a case of a suite."""
    return KEEPING.get(suite, run_case)
