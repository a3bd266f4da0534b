"""Suite: what more environments and more cores bring."""

from __future__ import annotations

from benchmarks.case import OURS, Case, Contestant
from benchmarks.machine import cores

TITLE = "Scaling"
INTRO = """\
Environment steps a second of whole iterations, collecting and learning, on all cores and pinned to fewer. A rollout
always has 32,768 steps, so that more environments make fewer steps each; 10 epochs, minibatches of 1,024, otherwise
as in *Training*."""

ROLLOUT, MINIBATCH_SIZE = 32_768, 1_024


def cases(quick: bool) -> list[Case]:
    """All cases of this suite."""
    sizes = {"tf": (8, 4_096), "process": (8, 128)} if quick else {"tf": (8, 64, 512, 4_096), "process": (8, 32, 128)}
    effort = {"rounds": 2, "seconds": 0.3} if quick else {"rounds": 5, "seconds": 1.0}
    found = []
    for backend, numbers in sizes.items():
        for num_envs in numbers:
            settings = {
                "env": "Pendulum-v1",
                "env_backend": backend,
                "num_envs": num_envs,
                "rollout_length": ROLLOUT // num_envs,
                "minibatch_size": MINIBATCH_SIZE,
            }
            contestants = [Contestant(OURS, "benchmarks.training:ours", settings)]
            for fewer in core_counts(len(cores())):
                name = f"{fewer} core{'s' if fewer > 1 else ''}"
                contestants.append(Contestant(name, "benchmarks.training:ours", settings, cores=fewer))
            found.append(Case(f"Pendulum-v1/{backend}/{num_envs}", "steps/s", tuple(contestants), **effort))
    return found


def core_counts(available: int) -> list[int]:
    """Powers of two below the number of cores."""
    return [2**power for power in range(available.bit_length()) if 2**power < available]
