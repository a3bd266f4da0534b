"""Suite: how long it takes to get somewhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks import commands
from benchmarks.case import OURS, Case, Contestant
from benchmarks.child import Measure

TITLE = "Goals"
INTRO = """\
Seconds from the start of the process. `to -200` is until an evaluation of the preset `pendulum` with
`--env-backend=tf` has a mean return of at least -200, over seeds 0, 1, ...; `1M steps` is the whole of
`--config=cheetah --steps=1000000`, with all evaluations, logs and checkpoints."""

GOAL = -200.0


def cases(quick: bool) -> list[Case]:
    """All cases of this suite; a million steps take too long for a quick look."""
    pendulum = (Contestant(OURS, f"{__name__}:pendulum"),)
    cheetah = (Contestant(OURS, f"{__name__}:cheetah"),)
    found = [Case("Pendulum-v1/tf/to -200", "s", pendulum, rounds=1 if quick else 5)]
    return found if quick else [*found, Case("HalfCheetah-v5/process/1M steps", "s", cheetah, rounds=1)]


def pendulum() -> Iterator[Measure]:
    """Time to a good pendulum; each measurement has another seed, and none is thrown away."""
    seeds = itertools.count()

    def measure(seconds: float) -> float:
        if not seconds:
            return 0.0
        seed = next(seeds)
        ended, rows = commands.train("--config=pendulum", "--env-backend=tf", f"--seed={seed}")
        reached = [row["wall_time"] for row in rows if row.get("eval/return_mean", float("-inf")) >= GOAL]
        if not reached:
            raise RuntimeError(f"seed {seed} did not reach {GOAL:g} within the preset's steps")
        return reached[0] - ended.started

    yield measure


def cheetah() -> Iterator[Measure]:
    """Time for a million steps."""

    def measure(seconds: float) -> float:
        return commands.train("--config=cheetah", "--steps=1000000")[0].seconds if seconds else 0.0

    yield measure
