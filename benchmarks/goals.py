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
`--env-backend=tf` whose mean return is at least -200, over seeds 0, 1, ...; a run that ends without one counts with all
of its time, which is less than it would have needed, and is named. `1M steps` is the whole of
`--config=cheetah --steps=1000000`, with all evaluations, logs and checkpoints, and the same with `hybrid`."""

GOAL = -200.0


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite; a million steps take too long for a quick run."""
    pendulum = (Contestant(OURS, f"{__name__}:pendulum"),)
    cheetah = tuple(
        Contestant(name, f"{__name__}:cheetah", {"env_backend": backend})
        for name, backend in ((OURS, "process"), ("hybrid", "hybrid"))
    )
    found = [Case("Pendulum-v1/tf/to -200", "s", pendulum, rounds=1 if quick else 5)]
    if not quick:
        found.append(Case("HalfCheetah-v5/process/1M steps", "s", cheetah, rounds=1))
    return found


def pendulum() -> Iterator[Measure]:
    """Measures the time to the goal; each measurement has another seed, and all of them count."""
    seeds = itertools.count()
    missing: list[int] = []

    def measure(seconds: float) -> tuple[float, str]:
        if not seconds:
            return 0.0, ""
        seed = next(seeds)
        process, rows = processes.train("--config=pendulum", "--env-backend=tf", f"--seed={seed}")
        reached = [
            row["wall_time"] for row in rows if row.get("eval/return_mean", float("-inf")) >= GOAL
        ]
        if not reached:
            missing.append(seed)
        note = f"not reached by seed {', '.join(map(str, missing))}" if missing else ""
        return reached[0] - process.started if reached else process.seconds, note

    yield measure


def cheetah(env_backend: str) -> Iterator[Measure]:
    """Measures the time of a million steps."""

    def measure(seconds: float) -> float:
        if not seconds:
            return 0.0
        settings = ("--config=cheetah", "--steps=1000000", f"--env-backend={env_backend}")
        return processes.train(*settings)[0].seconds

    yield measure
