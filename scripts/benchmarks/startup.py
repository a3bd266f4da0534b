"""Suite: from the start of the process to the end of the first iteration."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

from benchmarks import commands
from benchmarks.case import OURS, Case, Contestant
from benchmarks.child import Measure

TITLE = "Start"
INTRO = """\
Seconds from the start of the process until its first iteration has ended, with the sizes of the preset `pendulum` (8
environments x 250 steps, minibatches of 50). Ours is `python -m agents.scripts.train --config=pendulum`;
Stable-Baselines3's is a program that imports it, makes PPO in a DummyVecEnv and learns for 2,000 steps. What is said
about ours comes from one more run in which the parts of that command were timed, and includes tracing and compiling."""

STEPS, NUM_ENVS, ROLLOUT_LENGTH, MINIBATCH_SIZE = 2_000, 8, 250, 50


def cases(quick: bool) -> list[Case]:
    """All cases of this suite."""
    found = []
    for backend in ("process",) if quick else ("process", "tf"):
        contestants = (
            Contestant(OURS, f"{__name__}:ours", {"env_backend": backend}),
            Contestant("SB3", f"{__name__}:sb3"),
        )
        found.append(Case(f"Pendulum-v1/{backend}/{NUM_ENVS}", "s", contestants, rounds=2 if quick else 5))
    return found


def ours(env_backend: str) -> Iterator[Measure]:
    """Our training command; after it was measured for the first time, the parts of it are measured once."""
    settings = ["--config=pendulum", f"--env-backend={env_backend}", f"--steps={STEPS}", "--log-interval=1"]
    parts = ""

    def measure(seconds: float) -> tuple[float, str]:
        nonlocal parts
        ended, rows = commands.train(*settings)
        if seconds and not parts:
            timed = json.loads(commands.run(["-m", __name__, "parts", *settings]).output)
            parts = ", ".join(f"{name} {value:.1f} s" for name, value in timed.items())
        return rows[0]["wall_time"] - ended.started, parts

    yield measure


def sb3() -> Iterator[Measure]:
    """Stable-Baselines3, likewise."""

    def measure(seconds: float) -> float:
        ended = commands.run(["-m", __name__, "sb3", "1"])
        return float(ended.output) - ended.started

    yield measure


def train_with_sb3(iterations: int) -> None:
    """Trains for some iterations and prints when that was done."""
    from benchmarks.sb3 import iteration, make_envs, make_ppo

    ppo = make_ppo(make_envs("DummyVecEnv", "Pendulum-v1", NUM_ENVS), ROLLOUT_LENGTH, minibatch_size=MINIBATCH_SIZE)
    work = iteration(ppo)
    for _ in range(iterations):
        work()
    print(time.time())


def print_parts(arguments: list[str]) -> None:
    """Trains until the first iteration has ended, and prints the seconds of its parts."""
    import tempfile

    start = time.perf_counter()
    from agents import runs
    from agents.runs import environments
    from agents.scripts import train
    from benchmarks.ours import Stopwatch

    watch = Stopwatch()
    watch.watch(runs, "make_environments", "environments")
    watch.watch(environments, "start_tensorflow", "TensorFlow")  # Environments in the graph start it for themselves.

    def first_iteration() -> None:
        raise SystemExit(0)

    def watch_learner() -> None:  # Not before TensorFlow is imported, which naming the class would do.
        watch.watch(runs.Learner, "__init__", "building")
        watch.watch(runs.Learner, "iterate", "first iteration", then=first_iteration)

    watch.watch(runs, "start_tensorflow", "TensorFlow", then=watch_learner)
    imports = time.perf_counter() - start
    try:
        with tempfile.TemporaryDirectory() as logdir:
            train.main([f"--logdir={logdir}", *arguments])
    except SystemExit as end:
        if end.code:
            raise
        parts = {"imports": imports, **{name: sum(calls) for name, calls in watch.seconds.items()}}
        print(json.dumps({**parts, "everything": time.perf_counter() - start}))


if __name__ == "__main__":
    if sys.argv[1] == "sb3":
        train_with_sb3(int(sys.argv[2]))
    else:
        print_parts(sys.argv[2:])
