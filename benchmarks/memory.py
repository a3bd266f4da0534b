"""Suite: memory of the processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import processes
from benchmarks.case import OURS, Case, Contestant
from benchmarks.contestant import Measure
from benchmarks.environments import constructors
from benchmarks.processes import FinishedProcess

TITLE = "Memory"
INTRO = """\
Megabytes (10^6 bytes); the ratio is our memory / the peer's. `worker` is a worker process that hosts 16 Pendulums,
against a bare Python process that imported gymnasium, made the same 16 and stepped them: once as proportional set
size, where shared pages are divided among the processes that share them (both processes run at the same time, and
share the same libraries), and once as private memory. Both are read from /proc/PID/smaps_rollup. `parent` is the
largest resident set of the training process, for the preset `pendulum` with evaluations and logging, against
Stable-Baselines3 learning for as many steps in a DummyVecEnv; `Pong/parent` is that of the preset `pong`, for two
iterations with as many environments as the name says, and one episode of evaluation."""

NUM_ENVS, STEPS = 16, 20_000
MEGABYTE = 1e6

BARE = f"""\
import gymnasium
envs = [gymnasium.make("Pendulum-v1", disable_env_checker=True) for _ in range({NUM_ENVS})]
for env in envs:
    env.reset(seed=0)
    for _ in range(200):
        env.step(env.action_space.sample())
print("ready", flush=True)
input()
"""


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    rounds = 2 if quick else 5
    found = []
    for kind, name in (("Pss", "worker"), ("Private", "worker-private")):
        contestants = (
            Contestant(OURS, f"{__name__}:worker", {"kind": kind}),
            Contestant("bare", f"{__name__}:bare", {"kind": kind}),
        )
        found.append(Case(f"Pendulum-v1/{name}/{NUM_ENVS}", "MB", contestants, rounds))
    contestants = (
        Contestant(OURS, f"{__name__}:parent"),
        Contestant("SB3", f"{__name__}:sb3"),
    )
    found.append(Case("Pendulum-v1/parent/8", "MB", contestants, 1 if quick else 3))
    for num_envs in (8, 64):
        images = (Contestant(OURS, f"{__name__}:parent_of_images", {"num_envs": num_envs}),)
        found.append(Case(f"Pong/parent/{num_envs}", "MB", images, rounds=1))
    return found


def worker(kind: str) -> Iterator[Measure]:
    """Measures one of our worker processes."""
    from agents import BatchEnv, ExternalProcess

    process = ExternalProcess(constructors("Pendulum-v1", NUM_ENVS))
    with contextlib.closing(BatchEnv([process])) as envs:
        envs.reset(seed=0)
        for _ in range(200):
            envs.step(envs.action_space.sample())
        yield _memory_of(process.pid, kind)


def bare(kind: str) -> Iterator[Measure]:
    """Measures a process with the same environments and nothing else."""
    arguments = [sys.executable, "-c", BARE]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the bare process could not make its environments")
        yield _memory_of(process.pid, kind)
        process.stdin.close()


def parent() -> Iterator[Measure]:
    """Measures our training process."""
    return _peak_of(lambda: processes.train("--config=pendulum", f"--steps={STEPS}")[0])


def parent_of_images(num_envs: int) -> Iterator[Measure]:
    """Measures our training process for games."""
    rollout_length = 128  # That of the preset.
    settings = {
        "num-envs": num_envs,
        "env-backend": "hybrid",
        "steps": 2 * num_envs * rollout_length,
        "eval-episodes": 1,
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    return _peak_of(lambda: processes.train("--config=pong", *options)[0])


def sb3() -> Iterator[Measure]:
    """Measures the training process of Stable-Baselines3."""
    arguments = ["-m", "benchmarks.startup", "sb3", str(STEPS // 2_000)]
    return _peak_of(lambda: processes.run(arguments))


def _peak_of(work: Callable[[], FinishedProcess]) -> Iterator[Measure]:
    def measure(seconds: float) -> float:
        # The warm-up would take as long as a round.
        return work().peak / MEGABYTE if seconds else 0.0

    yield measure


def _memory_of(pid: int, kind: str) -> Measure:
    path = Path(f"/proc/{pid}/smaps_rollup")
    if not os.access(path, os.R_OK):
        raise RuntimeError(f"this system has no {path}")

    def measure(seconds: float) -> float:
        sizes = [line.split() for line in path.read_text().splitlines()[1:]]
        chosen = [
            int(size[1])
            for size in sizes
            if size[0].startswith((f"{kind}:", f"{kind}_Clean", f"{kind}_Dirty"))
        ]
        return sum(chosen) * 1024 / MEGABYTE

    return measure
