"""Suite: speed of stepping environments."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator

import gymnasium
import numpy as np

from agents.types import Space
from benchmarks import library, uneven
from benchmarks.case import LIMIT, OURS, Case, Contestant, Settings
from benchmarks.contestant import Measure, rate
from benchmarks.environments import constructors
from benchmarks.machine import cores
from benchmarks.ppo_settings import PPOSettings

TITLE = "Stepping"
INTRO = (
    """\
Environment steps per second over the whole batch, with random actions that were drawn before. All contestants get the
same constructor, `gymnasium.make(..., disable_env_checker=True)`, and resets are included; EnvPool has environments of
its own in C++. Ours is `agents.make_batch_env` with a worker per core; with `hybrid`, the process that steps the batch
takes the place of a worker. The limit is cores / time of one step of one environment in a bare loop with resets,
measured in the same rounds. Stable-Baselines3's workers are forked. PufferLib's `Multiprocessing` has a worker per
core, whose waits are busy; its Gymnasium and MuJoCo are of the versions of ours. `busy` is beside another process that
computes all the time; of C cores, the limit is then C / (C + 1) of what it was. `collect` is our loop in the graph with
PPO's 64-64 policy, 64 steps per call, against Gymnasium stepping alone.

"""
    + uneven.INTRO
)

ACTIONS = 16  # Batches of actions that are drawn, and repeated.
LIMIT_STEPS = 200  # Steps of the bare loop between two readings of the clock.


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    rounds, seconds = (3, 0.3) if quick else (5, 1.0)
    names = {
        OURS: "in_workers",
        LIMIT: "limit",
        "SyncVectorEnv": "sync_vector_env",
        "AsyncVectorEnv": "async_vector_env",
        "SB3-DummyVecEnv": "dummy_vec_env",
        "SB3-SubprocVecEnv": "subproc_vec_env",
        "EnvPool": "env_pool",
    }
    found = []
    for env, num_envs in itertools.product(("Pendulum-v1", "HalfCheetah-v5"), (32, 8)):
        settings: Settings = {"env": env, "num_envs": num_envs}
        contestants = tuple(
            Contestant(name, f"{__name__}:{each}", settings) for name, each in names.items()
        )
        contestants += tuple(
            Contestant(
                f"PufferLib-{vector}",
                "benchmarks.peers.puffer_vector:stepping",
                {**settings, "vector": vector},
                peer="pufferlib",
            )
            for vector in ("Serial", "Multiprocessing")
        )
        found.append(Case(f"{env}/process/{num_envs}", "steps/s", contestants, rounds, seconds))
        for case, busy in (("hybrid", False), ("hybrid-busy", True)):
            beside: Settings = {**settings, "busy": busy}
            contestants = (
                Contestant(OURS, f"{__name__}:in_workers", {**beside, "inline_share": True}),
                Contestant(LIMIT, f"{__name__}:limit", beside),
                Contestant("process", f"{__name__}:in_workers", beside),
                Contestant("SyncVectorEnv", f"{__name__}:sync_vector_env", beside),
            )
            found.append(Case(f"{env}/{case}/{num_envs}", "steps/s", contestants, rounds, seconds))
    settings = {"env": "Pendulum-v1", "num_envs": 32}
    contestants = (
        Contestant(OURS, f"{__name__}:in_graph", {**settings, "steps": 64}),
        Contestant("SyncVectorEnv", f"{__name__}:sync_vector_env", settings),
    )
    found.append(Case("Pendulum-v1/collect/32", "steps/s", contestants, rounds, seconds))
    return [*found, *uneven.cases(rounds, seconds)]


def in_workers(
    env: str, num_envs: int, inline_share: bool = False, busy: bool = False
) -> Iterator[Measure]:
    """Measures our BatchEnv."""
    from agents import make_batch_env

    batch = make_batch_env(constructors(env, num_envs), inline_share=inline_share)
    with contextlib.closing(batch) as envs:
        envs.reset(seed=0)
        yield _stepping(envs.step, envs.single_action_space, num_envs, busy)


def in_graph(env: str, num_envs: int, steps: int) -> Iterator[Measure]:
    """Measures our loop in the graph, with a policy that acts; it returns the rollout."""
    settings = PPOSettings(minibatch_size=steps)
    with library.algorithm(env, num_envs, steps, settings) as (envs, ppo):
        import tensorflow as tf

        from agents import simulate
        from agents.graph.graph_calls import GraphCalls

        collect = tf.function(lambda: simulate(envs, ppo, steps), autograph=False)
        with GraphCalls(convolves=False):
            yield rate(collect, num_envs * steps)


def limit(env: str, num_envs: int, busy: bool = False) -> Iterator[Measure]:
    """Measures the steps that all cores could take; beside a busy process, a fair part of them."""
    del num_envs
    num_cores = len(cores())
    free = num_cores**2 / (num_cores + 1) if busy else num_cores
    with contextlib.closing(constructors(env, 1)[0]()) as plain:
        actions = itertools.cycle(_actions(plain.action_space, 1)[:, 0])
        plain.reset(seed=0)

        def work() -> None:
            for action in itertools.islice(actions, LIMIT_STEPS):
                _, _, terminated, truncated, _ = plain.step(action)
                if terminated or truncated:
                    plain.reset()

        yield rate(work, LIMIT_STEPS * free)


def sync_vector_env(env: str, num_envs: int, busy: bool = False) -> Iterator[Measure]:
    """Measures Gymnasium's SyncVectorEnv."""
    with contextlib.closing(gymnasium.vector.SyncVectorEnv(constructors(env, num_envs))) as envs:
        envs.reset(seed=0)
        yield _stepping(envs.step, envs.single_action_space, num_envs, busy)


def async_vector_env(env: str, num_envs: int) -> Iterator[Measure]:
    """Measures Gymnasium's AsyncVectorEnv, with a process per environment."""
    with contextlib.closing(gymnasium.vector.AsyncVectorEnv(constructors(env, num_envs))) as envs:
        envs.reset(seed=0)
        yield _stepping(envs.step, envs.single_action_space, num_envs)


def dummy_vec_env(env: str, num_envs: int) -> Iterator[Measure]:
    """Measures Stable-Baselines3's DummyVecEnv."""
    from benchmarks.sb3 import make_envs

    with contextlib.closing(make_envs("DummyVecEnv", env, num_envs)) as envs:
        envs.reset()
        yield _stepping(envs.step, envs.action_space, num_envs)


def subproc_vec_env(env: str, num_envs: int) -> Iterator[Measure]:
    """Measures Stable-Baselines3's SubprocVecEnv, with a process per environment."""
    from benchmarks.sb3 import make_envs

    with contextlib.closing(make_envs("SubprocVecEnv", env, num_envs)) as envs:
        envs.reset()
        yield _stepping(envs.step, envs.action_space, num_envs)


def env_pool(env: str, num_envs: int) -> Iterator[Measure]:
    """Measures EnvPool, with threads and environments in C++."""
    import envpool

    with contextlib.closing(envpool.make_gymnasium(env, num_envs=num_envs)) as envs:
        envs.reset()
        yield _stepping(envs.step, envs.action_space, num_envs)


def _stepping(
    step: Callable[[np.ndarray], object], action_space: Space, num_envs: int, busy: bool = False
) -> Measure:
    actions = itertools.cycle(_actions(action_space, num_envs))
    measure = rate(lambda: step(next(actions)), num_envs)

    def measure_beside(seconds: float) -> float:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
            try:
                return measure(seconds)
            finally:
                process.kill()

    return measure_beside if busy else measure


def _actions(space: Space, num_envs: int) -> np.ndarray:
    """Draws actions [ACTIONS, B, ...], uniform within the bounds."""
    space.seed(0)
    return np.array([[space.sample() for _ in range(num_envs)] for _ in range(ACTIONS)])
