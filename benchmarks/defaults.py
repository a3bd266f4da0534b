"""Suite: returns with the defaults of Stable-Baselines3."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks import processes
from benchmarks.case import OURS, Case, Contestant
from benchmarks.contestant import Measure

TITLE = "Returns with the defaults of Stable-Baselines3"
INTRO = """\
Does the preset `sb3` learn what Stable-Baselines3 learns? Both train PPO with the latter's defaults, one environment
and equal steps. A figure is the mean return of the last weights over 20 episodes with deterministic actions; round N
has seed N."""

EPISODES = 20
_STEPS = {"CartPole-v1": 30_000, "Pendulum-v1": 100_000, "Hopper-v5": 200_000}
_QUICK = {"CartPole-v1": 4096}


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    return [
        Case(
            f"{env}/{steps:,} steps",
            "return",
            tuple(
                Contestant(name, f"{__name__}:{function}", {"env": env, "steps": steps}, threads=1)
                for name, function in ((OURS, "ours"), ("SB3", "sb3"))
            ),
            rounds=1 if quick else 10,
        )
        for env, steps in (_QUICK if quick else _STEPS).items()
    ]


def ours(env: str, steps: int) -> Iterator[Measure]:
    """Measures the last evaluation of a training with the preset."""
    seeds = itertools.count()

    def measure(seconds: float) -> float:
        if not seconds:
            return 0.0
        settings = {
            "config": "sb3",
            "env": env,
            "steps": steps,
            "seed": next(seeds),
            "env-backend": "inline",
            "eval-interval": steps,
            "eval-episodes": EPISODES,
        }
        _, rows = processes.train(*(f"--{name}={value}" for name, value in settings.items()))
        return [row["eval/return_mean"] for row in rows if "eval/return_mean" in row][-1]

    yield measure


def sb3(env: str, steps: int) -> Iterator[Measure]:
    """Measures Stable-Baselines3's evaluation after a training."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy

    seeds = itertools.count()

    def measure(seconds: float) -> float:
        if not seconds:
            return 0.0
        ppo = PPO("MlpPolicy", env, device="cpu", seed=next(seeds)).learn(steps)
        mean, _ = evaluate_policy(ppo, ppo.get_env(), EPISODES, deterministic=True)
        return float(mean)

    yield measure
