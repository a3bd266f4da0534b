"""The figures that the benchmarks must reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.case import OURS
from benchmarks.summary import Entry, figures_of, scalar

AT_LEAST, AT_MOST = ">=", "<="


@dataclass(frozen=True)
class Target:
    """A bound that must hold, and an aim.

    Attributes:
      suite: Suite that measures the number.
      case: Case that measures the number.
      key: Number of the case: `ratio_PEER`, `of_limit`, or `median` for ours.
      side: Whether the number must be at least or at most the bound.
      bound: Bound that must hold.
      aim: Bound that is aimed at; None if there is no aim beyond the bound.
    """

    suite: str
    case: str
    key: str
    side: str
    bound: float
    aim: float | None

    def value(self, results: Mapping[str, Mapping[str, Entry]]) -> float | None:
        """Returns the measured number; None if it was not measured."""
        entry = results.get(self.suite, {}).get(self.case)
        if entry is None:
            return None
        return (
            figures_of(entry)[OURS]["median"] if self.key == "median" else scalar(entry, self.key)
        )

    def verdict(self, value: float) -> str:
        """Returns whether the target is reached, in one or two words."""
        if self.aim is not None and self._holds(value, self.aim):
            return "aim reached"
        return "holds" if self._holds(value, self.bound) else "MISSED"

    def _holds(self, value: float, bound: float) -> bool:
        return value >= bound if self.side == AT_LEAST else value <= bound


TARGETS = (
    Target("stepping", "Pendulum-v1/process/32", "ratio_AsyncVectorEnv", AT_LEAST, 12, 16),
    Target("stepping", "HalfCheetah-v5/process/32", "ratio_AsyncVectorEnv", AT_LEAST, 5, 8),
    *(
        Target("stepping", f"{env}/{backend}/{num_envs}", "of_limit", AT_LEAST, bound, aim)
        for env in ("Pendulum-v1", "HalfCheetah-v5")
        for backend, num_envs, bound, aim in (
            ("process", 32, 0.85, 0.95),
            ("process", 8, 0.75, 0.90),
            ("hybrid", 32, 0.65, 0.85),
            ("hybrid", 8, 0.55, 0.75),
            ("hybrid-busy", 32, 0.5, 0.75),
            ("hybrid-busy", 8, 0.5, 0.75),
        )
    ),
    Target("stepping", "Pendulum-v1/collect/32", "ratio_SyncVectorEnv", AT_LEAST, 1.0, 1.3),
    Target("update", "Pendulum-v1/minibatch/64", "ratio_SB3", AT_LEAST, 14, 20),
    *(
        Target("training", f"{env}/{backend}/{num_envs}", "ratio_SB3", AT_LEAST, bound, aim)
        for backend in ("process", "hybrid")
        for env, num_envs, bound, aim in (
            ("Pendulum-v1", 8, 8, 12),
            ("Pendulum-v1", 32, 11, 15),
            ("HalfCheetah-v5", 8, 5.5, 7),
        )
    ),
    Target("training", "HalfCheetah-v5/process/8/normalized", "ratio_CleanRL", AT_LEAST, 6, 10),
    Target("training", "HalfCheetah-v5/envpool/32", "ratio_process", AT_LEAST, 1.2, 1.5),
    Target("training", "HalfCheetah-v5/envpool/32", "ratio_rl_games", AT_LEAST, 1, 1.5),
    Target("training", "Pendulum-v1/tf/4", "ratio_RLtools", AT_LEAST, 1, 1.5),
    Target("training", "Pendulum-v1/tf/8", "ratio_SB3", AT_LEAST, 13, 20),
    Target("training", "CartPole-v1/tf/8", "ratio_SB3", AT_LEAST, 12, 18),
    Target("training", "CartPole-v1/tf/8", "ratio_PureJaxRL", AT_LEAST, 2, 3),
    Target("training", "Pendulum-v1/process/recurrent", "ratio_feed_forward", AT_LEAST, 0.6, 0.8),
    Target("training", "Pendulum-v1/process/graph-calls", "median", AT_MOST, 1, None),
    Target("training", "Pendulum-v1/tf/graph-calls", "median", AT_MOST, 1, None),
    Target("training", "Pendulum-v1/process/logging", "median", AT_MOST, 3, None),
    Target("training", "Pendulum-v1/tf/logging", "median", AT_MOST, 3, None),
    Target("sac", "HalfCheetah-v5/sac", "ratio_SB3", AT_LEAST, 2, None),
    Target("sac", "HalfCheetah-v5/sac", "ratio_CleanRL", AT_LEAST, 2, None),
    Target("sac", "HalfCheetah-v5/sac", "ratio_SBX", AT_LEAST, 1, None),
    Target("sac", "HalfCheetah-v5/sac", "of_limit", AT_LEAST, 0.8, None),
    Target("images", "Pong/8", "ratio_CleanRL", AT_LEAST, 1.5, 2.5),
    Target("startup", "Pendulum-v1/process/8/cold", "median", AT_MOST, 9, 8),
    Target("startup", "Pendulum-v1/process/8/warm", "median", AT_MOST, 6, 5),
    Target("startup", "Pendulum-v1/tf/8/cold", "median", AT_MOST, 9, 8),
    Target("startup", "Pendulum-v1/tf/8/warm", "median", AT_MOST, 6, 5),
    Target("memory", "Pendulum-v1/worker/16", "ratio_bare", AT_MOST, 1.15, 1.05),
    Target("memory", "Pendulum-v1/parent/8", "median", AT_MOST, 1000, 800),
    Target("goals", "Pendulum-v1/tf/to -200", "median", AT_MOST, 9, 7),
    Target("goals", "HalfCheetah-v5/process/1M steps", "median", AT_MOST, 90, 80),
    Target("distributed", "nature/weak", "ratio_1 learner", AT_LEAST, 0.95, None),
    Target("distributed", "reductions/learners/2", "ratio_TensorFlow", AT_LEAST, 3, None),
)
