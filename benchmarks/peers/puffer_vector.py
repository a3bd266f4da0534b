"""Stepping of environments in PufferLib's vectors."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Iterator

import gymnasium
import numpy as np

from benchmarks.contestant import Measure, rate
from benchmarks.machine import cores

ACTIONS = 16  # Batches of actions that are drawn, and repeated, as in the suite.
IDLE = 0.7  # Seconds after which workers no longer wait busily, which would slow others down.


def stepping(env: str, num_envs: int, vector: str) -> Iterator[Measure]:
    """Measures `Serial`, or `Multiprocessing` with a worker per core, which wait busily."""
    import pufferlib.emulation
    import pufferlib.vector

    make_env = functools.partial(gymnasium.make, env, disable_env_checker=True)
    constructor = functools.partial(pufferlib.emulation.GymnasiumPufferEnv, env_creator=make_env)
    workers = {"num_workers": len(cores())} if vector == "Multiprocessing" else {}
    envs = pufferlib.vector.make(
        constructor, num_envs=num_envs, backend=getattr(pufferlib.vector, vector), **workers
    )
    with contextlib.closing(envs):
        envs.reset(seed=0)
        space = envs.action_space
        space.seed(0)
        actions = itertools.cycle(np.array([space.sample() for _ in range(ACTIONS)]))
        measure = rate(lambda: envs.step(next(actions)), num_envs)

        def measure_alone(seconds: float) -> float:
            envs.step(next(actions))  # Workers that slept take a while for the first one.
            speed = measure(seconds)
            time.sleep(IDLE)
            return speed

        yield measure_alone
