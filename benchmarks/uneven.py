"""Cases of the suite of stepping: slow environments whose steps take unequally long."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from agents.types import Env
from benchmarks import library
from benchmarks.case import LIMIT, OURS, Case, Contestant, Settings
from benchmarks.contestant import Measure, Measurement, rate
from benchmarks.environments import constructors
from benchmarks.machine import cores
from benchmarks.ppo_settings import PPOSettings

if TYPE_CHECKING:
    import agents

INTRO = """\
`lognormal` and `pareto` are cases in which every environment has a process of its own and sleeps in its steps, 5 ms in
the mean, drawn from a heavy tail (a lognormal with sigma 1; a Pareto with shape 1.5, cut at 1 s): a simulator that
other machines or other cores compute. Sleeping needs no core, so that eight of them run on two. Ours is `collect` with
`wait_for` 0.01, 128 steps per call; `half` has `wait_for` 0.5 and `together` 1; the rollouts are equal, bit by bit. The
limit is that of environments that never wait for each other. EnvPool's own environments can't be made uneven.
`halves` are Pendulums or HalfCheetahs in two workers that share one core, while the policy acts on another core: with
`wait_for` 0.5 (ours) one half of them steps while the policy acts for the other half, `together` all of them do both
in turns."""

MEAN_SECONDS, LONGEST_SECONDS = 0.005, 1.0
STEPS = 128


class UnevenEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Sleeps in every step."""

    def __init__(self, env: Env, tail: str, index: int):
        """Draws durations from a `tail`, in an order of its own for every `index`."""
        super().__init__(env)
        self._tail, self._random = tail, np.random.default_rng(index)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Sleeps, and steps the environment."""
        time.sleep(self._draw_seconds())
        return self.env.step(action)

    def _draw_seconds(self) -> float:
        """Draws a duration whose mean is `MEAN_SECONDS`."""
        if self._tail == "lognormal":
            factor = self._random.lognormal(-0.5, 1.0)
        else:
            factor = (1 + self._random.pareto(1.5)) / 3
        return float(min(MEAN_SECONDS * factor, LONGEST_SECONDS))


def cases(rounds: int, seconds: float) -> list[Case]:
    """Returns the cases."""
    found = []
    for tail, num_envs in (("lognormal", 8), ("lognormal", 4), ("pareto", 8), ("pareto", 4)):
        settings: Settings = {"tail": tail, "num_envs": num_envs}
        contestants = (
            Contestant(OURS, f"{__name__}:sleeping", {**settings, "percent": 1}),
            Contestant(LIMIT, f"{__name__}:limit", settings),
            Contestant("half", f"{__name__}:sleeping", {**settings, "percent": 50}),
            Contestant("together", f"{__name__}:sleeping", {**settings, "percent": 100}),
            Contestant("AsyncVectorEnv", f"{__name__}:async_vector_env", settings),
        )
        found.append(
            Case(f"Pendulum-v1/{tail}/{num_envs}", "steps/s", contestants, rounds, seconds)
        )
    for env in ("Pendulum-v1", "HalfCheetah-v5"):
        settings = {"env": env, "num_envs": 32}
        halves = Contestant(OURS, f"{__name__}:pinned", {**settings, "percent": 50})
        together = Contestant("together", f"{__name__}:pinned", {**settings, "percent": 100})
        found.append(Case(f"{env}/halves/32", "steps/s", (halves, together), rounds, seconds))
    return found


def sleeping(tail: str, num_envs: int, percent: int) -> Iterator[Measure]:
    """Measures rollouts of environments that sleep; `percent` is 100 times `wait_for`."""
    with _collecting(_uneven(tail, num_envs), percent, num_envs) as (_, collect):
        yield rate(collect, num_envs * STEPS)


def pinned(env: str, num_envs: int, percent: int) -> Iterator[Measure]:
    """Measures rollouts whose two workers share one core; the policy acts on another."""
    one, *others = sorted(cores())
    if not others:
        raise RuntimeError("needs two cores")
    os.sched_setaffinity(0, others[:1])  # Workers inherit it.
    made = constructors(env, num_envs)
    with _collecting(made, percent, 2, lambda: os.sched_setaffinity(0, [one])) as (envs, collect):

        def measure(seconds: float) -> Measurement:
            before = envs.seconds
            speed = rate(collect, num_envs * STEPS)
            start = time.perf_counter()
            steps_per_second = speed(seconds)
            elapsed, waited = time.perf_counter() - start, envs.seconds - before
            scale = 1000 * num_envs / (steps_per_second * elapsed)  # To ms of a step of all.
            parts = {"ms environments": scale * waited, "ms acting": scale * (elapsed - waited)}
            return Measurement(steps_per_second, parts=parts)

        yield measure


def limit(tail: str, num_envs: int) -> Iterator[Measure]:
    """Measures the steps of environments that never wait."""
    with contextlib.closing(_uneven(tail, 1)[0]()) as env:
        env.reset(seed=0)
        action = np.zeros(env.action_space.shape or (), np.float32)

        def work() -> None:
            _, _, _, truncated, _ = env.step(action)
            if truncated:
                env.reset()

        yield rate(work, num_envs)


def async_vector_env(tail: str, num_envs: int) -> Iterator[Measure]:
    """Measures Gymnasium's AsyncVectorEnv, without a policy."""
    with contextlib.closing(gymnasium.vector.AsyncVectorEnv(_uneven(tail, num_envs))) as envs:
        envs.reset(seed=0)
        actions = envs.action_space.sample()
        yield rate(lambda: envs.step(actions), num_envs)


def _uneven(tail: str, num_envs: int) -> list[Callable[[], Env]]:
    plain = constructors("Pendulum-v1", num_envs)
    return [functools.partial(_make, make, tail, index) for index, make in enumerate(plain)]


def _make(make: Callable[[], Env], tail: str, index: int) -> Env:
    return UnevenEnv(make(), tail, index)


@contextlib.contextmanager
def _collecting(
    made: list[Callable[[], Env]],
    percent: int,
    processes: int,
    when_started: Callable[[], None] = lambda: None,
) -> Iterator[tuple[agents.InGraphBatchEnv, Callable[[], None]]]:
    """Yields environments and a function that collects a rollout of them with PPO's policy."""
    import agents

    batch = agents.make_batch_env(made, processes, wait_for=percent / 100)
    when_started()
    settings = PPOSettings(minibatch_size=STEPS)
    with library.algorithm("Pendulum-v1", len(made), STEPS, settings, batch) as (envs, ppo):
        import tensorflow as tf

        from agents.graph.graph_calls import GraphCalls

        collect = tf.function(lambda: agents.simulate(envs, ppo, STEPS), autograph=False)

        def collect_raising() -> None:
            with envs.raising():
                collect()

        with GraphCalls(convolves=False):
            yield envs, collect_raising
