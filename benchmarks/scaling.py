"""Suite: speed by the number of environments and cores."""

from __future__ import annotations

from benchmarks.case import OURS, Case, Contestant, Settings
from benchmarks.machine import cores

TITLE = "Scaling"
INTRO = """\
Environment steps per second of whole iterations, collecting and learning, on all cores and pinned to fewer. A rollout
always has 32,768 steps, so that more environments take fewer steps each; 10 epochs, minibatches of 1,024, otherwise
as in *Training*."""

ROLLOUT, MINIBATCH_SIZE = 32_768, 1_024


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    rounds, seconds = (2, 0.3) if quick else (5, 1.0)
    sizes: dict[str, tuple[int, ...]] = {
        "tf": (8, 4_096) if quick else (8, 64, 512, 4_096),
        "process": (8, 128) if quick else (8, 32, 128),
    }
    return [
        Case(
            f"Pendulum-v1/{backend}/{num_envs}",
            "steps/s",
            _contestants(backend, num_envs),
            rounds,
            seconds,
        )
        for backend, all_num_envs in sizes.items()
        for num_envs in all_num_envs
    ]


def core_counts(available: int) -> list[int]:
    """Returns the powers of two below the number of cores."""
    return [2**power for power in range(available.bit_length()) if 2**power < available]


def _contestants(backend: str, num_envs: int) -> tuple[Contestant, ...]:
    settings: Settings = {
        "env": "Pendulum-v1",
        "env_backend": backend,
        "num_envs": num_envs,
        "rollout_length": ROLLOUT // num_envs,
        "minibatch_size": MINIBATCH_SIZE,
    }
    function = "benchmarks.training:ours"
    pinned = [
        Contestant(f"{fewer} core{'s' if fewer > 1 else ''}", function, settings, cores=fewer)
        for fewer in core_counts(len(cores()))
    ]
    return (Contestant(OURS, function, settings), *pinned)
