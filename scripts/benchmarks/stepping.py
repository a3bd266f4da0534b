"""Suite: how fast environments are stepped."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np

from benchmarks import ours as library
from benchmarks.case import LIMIT, OURS, Case, Contestant
from benchmarks.child import Measure, rate
from benchmarks.machine import cores

TITLE = "Stepping"
INTRO = """\
Environment steps a second over the whole batch, with random actions that were drawn before. Everyone gets the same
constructor, `gymnasium.make(..., disable_env_checker=True)`, resets included; EnvPool has environments of its own in
C++. Ours is `agents.tools.make_batch_env` with a worker for each core. The limit is cores / time of one step of one
environment in a bare loop, resets included, measured in the same rounds. Stable-Baselines3's workers are forked.
`collect` is our loop in the graph with PPO's 64-64 policy, 64 steps a call, against Gymnasium stepping alone."""

ACTIONS = 16  # Batches of actions that are drawn; they come around again.
LIMIT_STEPS = 200  # In the bare loop, between two looks at the clock.


def cases(quick: bool) -> list[Case]:
    """All cases of this suite."""
    effort = {"rounds": 3, "seconds": 0.3} if quick else {"rounds": 5, "seconds": 1.0}
    found = []
    for env, num_envs in itertools.product(("Pendulum-v1", "HalfCheetah-v5"), (32, 8)):
        settings = {"env": env, "num_envs": num_envs}
        names = {
            OURS: "in_workers",
            LIMIT: "limit",
            "SyncVectorEnv": "sync_vector_env",
            "AsyncVectorEnv": "async_vector_env",
            "SB3-DummyVecEnv": "dummy_vec_env",
            "SB3-SubprocVecEnv": "subproc_vec_env",
            "EnvPool": "env_pool",
        }
        contestants = tuple(Contestant(name, f"{__name__}:{each}", settings) for name, each in names.items())
        found.append(Case(f"{env}/process/{num_envs}", "steps/s", contestants, **effort))
    settings = {"env": "Pendulum-v1", "num_envs": 32}
    contestants = (
        Contestant(OURS, f"{__name__}:in_graph", {**settings, "steps": 64}),
        Contestant("SyncVectorEnv", f"{__name__}:sync_vector_env", settings),
    )
    return [*found, Case("Pendulum-v1/collect/32", "steps/s", contestants, **effort)]


def in_workers(env: str, num_envs: int) -> Iterator[Measure]:
    """Our BatchEnv."""
    from agents.tools import make_batch_env

    with contextlib.closing(make_batch_env(constructors(env, num_envs))) as envs:
        envs.reset(seed=0)
        yield _stepping(envs.step, envs.single_action_space, num_envs)


def in_graph(env: str, num_envs: int, steps: int) -> Iterator[Measure]:
    """Our loop in the graph, with a policy that acts; it returns the rollout."""
    settings = {"env": env, "num_envs": num_envs, "rollout_length": steps, "minibatch_size": steps}
    with library.algorithm(**settings) as (envs, ppo):
        import tensorflow as tf

        from agents.runs.tensorflow_setup import graph_executor
        from agents.tools import simulate

        collect = tf.function(lambda: simulate(envs, ppo, steps), autograph=False)
        with graph_executor(convolves=False):
            yield rate(collect, num_envs * steps)


def limit(env: str, num_envs: int) -> Iterator[Measure]:
    """As many steps as all cores could make, if there were nothing else to do."""
    del num_envs
    with contextlib.closing(constructors(env, 1)[0]()) as plain:
        actions = itertools.cycle(_actions(plain.action_space, 1)[:, 0])
        plain.reset(seed=0)

        def work() -> None:
            for action in itertools.islice(actions, LIMIT_STEPS):
                _, _, terminated, truncated, _ = plain.step(action)
                if terminated or truncated:
                    plain.reset()

        yield rate(work, LIMIT_STEPS * len(cores()))


def sync_vector_env(env: str, num_envs: int) -> Iterator[Measure]:
    """Gymnasium, one environment after another."""
    with contextlib.closing(gymnasium.vector.SyncVectorEnv(constructors(env, num_envs))) as envs:
        envs.reset(seed=0)
        yield _stepping(envs.step, envs.single_action_space, num_envs)


def async_vector_env(env: str, num_envs: int) -> Iterator[Measure]:
    """Gymnasium, a process for each environment."""
    with contextlib.closing(gymnasium.vector.AsyncVectorEnv(constructors(env, num_envs))) as envs:
        envs.reset(seed=0)
        yield _stepping(envs.step, envs.single_action_space, num_envs)


def dummy_vec_env(env: str, num_envs: int) -> Iterator[Measure]:
    """Stable-Baselines3, one environment after another."""
    from benchmarks.sb3 import make_envs

    with contextlib.closing(make_envs("DummyVecEnv", env, num_envs)) as envs:
        envs.reset()
        yield _stepping(envs.step, envs.action_space, num_envs)


def subproc_vec_env(env: str, num_envs: int) -> Iterator[Measure]:
    """Stable-Baselines3, a process for each environment."""
    from benchmarks.sb3 import make_envs

    with contextlib.closing(make_envs("SubprocVecEnv", env, num_envs)) as envs:
        envs.reset()
        yield _stepping(envs.step, envs.action_space, num_envs)


def env_pool(env: str, num_envs: int) -> Iterator[Measure]:
    """EnvPool, threads and environments in C++."""
    import envpool

    envs = envpool.make_gymnasium(env, num_envs=num_envs)
    with contextlib.closing(envs):
        envs.reset()
        yield _stepping(envs.step, envs.action_space, num_envs)


def constructors(env: str, num_envs: int) -> list[Callable[[], gymnasium.Env]]:
    """Of equal environments."""
    return [functools.partial(gymnasium.make, env, disable_env_checker=True)] * num_envs


def _stepping(step: Callable[[np.ndarray], Any], action_space: gymnasium.Space, num_envs: int) -> Measure:
    actions = itertools.cycle(_actions(action_space, num_envs))
    return rate(lambda: step(next(actions)), num_envs)


def _actions(space: Any, num_envs: int) -> np.ndarray:
    """[ACTIONS, B, ...], uniform within the bounds."""
    space.seed(0)
    return np.array([[space.sample() for _ in range(num_envs)] for _ in range(ACTIONS)])
