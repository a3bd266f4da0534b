"""Suite: time to reach a goal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks import processes
from benchmarks.case import OURS, Case, Contestant
from benchmarks.contestant import Measure

TITLE = "Goals"
INTRO = """\
Seconds from the start of the process. `to -200` ends with the first evaluation of the preset `pendulum` with
`--env-backend=tf` whose mean return is at least -200, over seeds 0, 1, ...; `1M steps` is the whole of
`--config=cheetah --steps=1000000`, with all evaluations, logs and checkpoints."""

GOAL = -200.0


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite; a million steps take too long for a quick run."""
    pendulum = (Contestant(OURS, f"{__name__}:pendulum"),)
    cheetah = (Contestant(OURS, f"{__name__}:cheetah"),)
    found = [Case("Pendulum-v1/tf/to -200", "s", pendulum, rounds=1 if quick else 5)]
    if not quick:
        found.append(Case("HalfCheetah-v5/process/1M steps", "s", cheetah, rounds=1))
    return found


def pendulum() -> Iterator[Measure]:
    """Measures the time to the goal; each measurement has another seed, and all of them count."""
    seeds = itertools.count()

    def measure(seconds: float) -> float:
        if not seconds:
            return 0.0
        seed = next(seeds)
        process, rows = processes.train("--config=pendulum", "--env-backend=tf", f"--seed={seed}")
        reached = [
            row["wall_time"] for row in rows if row.get("eval/return_mean", float("-inf")) >= GOAL
        ]
        if not reached:
            raise RuntimeError(f"seed {seed} did not reach {GOAL:g} within the preset's steps")
        return reached[0] - process.started

    yield measure


def cheetah() -> Iterator[Measure]:
    """Measures the time of a million steps."""

    def measure(seconds: float) -> float:
        if not seconds:
            return 0.0
        return processes.train("--config=cheetah", "--steps=1000000")[0].seconds

    yield measure
