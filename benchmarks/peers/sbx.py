"""Soft actor-critic of Stable-Baselines3, in PyTorch and, as SBX, in JAX."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium

from benchmarks.contestant import Measure, rate

STEPS = 256  # Environment steps of a call of `learn`.


def stable_baselines3(env: str, learning_starts: int) -> Iterator[Measure]:
    """Measures `learn` in PyTorch."""
    from stable_baselines3 import SAC

    yield from _measure(SAC, env, learning_starts)


def sbx(env: str, learning_starts: int) -> Iterator[Measure]:
    """Measures `learn` in JAX."""
    from sbx import SAC

    yield from _measure(SAC, env, learning_starts)


def _measure(algorithm: type, env: str, learning_starts: int) -> Iterator[Measure]:
    model = algorithm(
        "MlpPolicy", gymnasium.make(env), learning_starts=learning_starts, device="cpu", seed=0
    )

    def learn() -> None:
        model.learn(STEPS, log_interval=10**9, reset_num_timesteps=False)

    while model.num_timesteps <= learning_starts:
        learn()
    yield rate(learn, STEPS)
