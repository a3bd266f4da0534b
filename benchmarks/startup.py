"""Suite: time from the start of the process to the end of the first iteration."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from unittest import mock

from agents import compilation_cache
from benchmarks import processes
from benchmarks.case import OURS, Case, Contestant
from benchmarks.contestant import Measure

TITLE = "Start"
INTRO = """\
Seconds from the start of the process to the end of its first iteration, with the sizes of the preset `pendulum` (8
environments x 250 steps, minibatches of 50). Ours is `python -m agents.scripts.train --config=pendulum`;
Stable-Baselines3's is a program that imports it, makes PPO in a DummyVecEnv and learns for 2,000 steps. Ours is `cold`
where the cache of compiled programs is empty, as on the first start on a machine, and `warm` on those after it. The
note is of one more run in which the parts of that command were timed; it includes tracing and compiling."""

STEPS, NUM_ENVS, ROLLOUT_LENGTH, MINIBATCH_SIZE = 2_000, 8, 250, 50


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    rounds = 2 if quick else 5
    found = []
    for backend in ("process",) if quick else ("process", "tf"):
        cold, warm = ({"env_backend": backend, "cache": cache} for cache in ("cold", "warm"))
        name = f"Pendulum-v1/{backend}/{NUM_ENVS}"
        peer = Contestant("SB3", f"{__name__}:sb3")
        found.append(
            Case(f"{name}/cold", "s", (Contestant(OURS, f"{__name__}:ours", cold), peer), rounds)
        )
        peer = Contestant("cold", f"{__name__}:ours", cold)
        found.append(
            Case(f"{name}/warm", "s", (Contestant(OURS, f"{__name__}:ours", warm), peer), rounds)
        )
    return found


def ours(env_backend: str, cache: str) -> Iterator[Measure]:
    """Measures our training command; its parts are measured once, after the first measurement."""
    settings = [
        "--config=pendulum",
        f"--env-backend={env_backend}",
        f"--steps={STEPS}",
        "--log-interval=1",
    ]
    parts = ""

    def measure(seconds: float) -> tuple[float, str]:
        nonlocal parts
        with _compilation_cache(caches if cache == "warm" else None):
            process, rows = processes.train(*settings)
        if seconds and not parts:
            with _compilation_cache(caches if cache == "warm" else None):
                timed = json.loads(processes.run(["-m", __name__, "parts", *settings]).output)
            parts = ", ".join(f"{name} {value:.1f} s" for name, value in timed.items())
        return rows[0]["wall_time"] - process.started, parts

    with tempfile.TemporaryDirectory() as caches:
        yield measure


@contextlib.contextmanager
def _compilation_cache(folder: str | None) -> Iterator[None]:
    """Lets processes keep compiled programs in a folder, or in an empty one."""
    with contextlib.ExitStack() as stack:
        folder = folder or stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(mock.patch.dict(os.environ, {compilation_cache.VARIABLE: folder}))
        yield


def sb3() -> Iterator[Measure]:
    """Measures a program with Stable-Baselines3."""

    def measure(seconds: float) -> float:
        process = processes.run(["-m", __name__, "sb3", "1"])
        return float(process.output) - process.started

    yield measure


def train_with_sb3(iterations: int) -> None:
    """Trains for some iterations and prints the time at the end."""
    from benchmarks.ppo_settings import PPOSettings
    from benchmarks.sb3 import iteration, make_envs, make_ppo

    envs = make_envs("DummyVecEnv", "Pendulum-v1", NUM_ENVS)
    work = iteration(make_ppo(envs, ROLLOUT_LENGTH, PPOSettings(minibatch_size=MINIBATCH_SIZE)))
    for _ in range(iterations):
        work()
    print(time.time())


def print_parts(arguments: Sequence[str]) -> None:
    """Trains until the end of the first iteration, and prints the seconds of its parts as JSON."""
    start = time.perf_counter()
    from agents.scripts import train
    from benchmarks.library import Stopwatch, watch_start

    watch = Stopwatch()
    watch_start(watch)
    imports = time.perf_counter() - start
    try:
        with tempfile.TemporaryDirectory() as logdir:
            train.main([f"--logdir={logdir}", *arguments])
    except SystemExit as end:
        if end.code:
            raise
        parts = {"imports": imports, **{name: sum(calls) for name, calls in watch.seconds.items()}}
        print(json.dumps({**parts, "total": time.perf_counter() - start}))


if __name__ == "__main__":
    if sys.argv[1] == "sb3":
        train_with_sb3(int(sys.argv[2]))
    else:
        print_parts(sys.argv[2:])
