"""Published returns of other libraries, on-policy and off-policy; see SOURCES for what differs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MILLION = 1_000_000
SAME_BUDGET = 1.5  # Figures of up to so many times a row's steps are of the same budget.


@dataclass(frozen=True)
class Source:
    """Origin of figures.

    Attributes:
      runs: Number of runs behind a figure.
      protocol: Published statistic: `last`, `maximum` or `training`, see `PROTOCOLS`.
      versions: Versions of MuJoCo's environments, or another family.
      off_policy: Whether the algorithm is off-policy; the others are PPO or RPO.
    """

    runs: str
    protocol: str
    versions: str = ""
    off_policy: bool = False


PROTOCOLS = {
    "last": "evaluations at the end of training",
    "maximum": "the highest point of the mean over runs, anywhere in training",
    "training": "returns of the last training episodes, with exploration",
    "unknown": "of a protocol that we did not find",
}

SOURCES = {
    "CleanRL": Source("three seeds", "training", "MuJoCo v4"),
    "CleanRL, EnvPool": Source("three seeds", "training", "Atari"),
    "RL-Zoo": Source("one run, tuned for the task", "last", "MuJoCo v3"),
    "TF-Agents": Source("three runs", "last", "MuJoCo v2"),
    "Tianshou": Source("ten seeds", "last", "MuJoCo v3; v2 for Reacher and the pendulums"),
    "Tianshou, maximum": Source(
        "ten seeds", "maximum", "MuJoCo v3; v2 for Reacher and the pendulums"
    ),
    "rl_games": Source("curves, number of runs unknown", "training", "EnvPool, MuJoCo v4"),
    "rl_games, v5": Source("curves, number of runs unknown", "training", "EnvPool, MuJoCo v5"),
    "SLM-Lab": Source("number of runs unknown", "unknown", "MuJoCo v5; Atari with sticky actions"),
    "CleanRL PPO": Source("ten seeds", "training", "dm_control, Box2D"),
    "CleanRL RPO": Source("ten seeds", "training", "dm_control, Box2D, MuJoCo"),
    "Sample Factory": Source("number of runs unknown", "unknown", "MuJoCo"),
    "others": Source("a PPO course's notebook, with a tanh-squashed Gaussian", "last", "PyBullet"),
    "RL-Zoo TD3": Source("one run", "last", "MuJoCo v3", off_policy=True),
    "RL-Zoo TQC": Source("one run", "last", "MuJoCo v3", off_policy=True),
    "rl_games SAC": Source("three seeds", "unknown", "MuJoCo v5", off_policy=True),
}


@dataclass(frozen=True)
class Figure:
    """A mean return after a number of environment steps; `std` is None where none is published."""

    source: str
    mean: float
    steps: int
    std: float | None = None

    @property
    def off_policy(self) -> bool:
        """Whether the algorithm is off-policy."""
        return self.source in SOURCES and SOURCES[self.source].off_policy


def _control(ppo: float, rpo: float) -> tuple[Figure, ...]:
    """CleanRL's figures of a task of dm_control, after eight million steps."""
    return (
        Figure("CleanRL PPO", ppo, 8 * MILLION),
        Figure("CleanRL RPO", rpo, 8 * MILLION),
    )


# By environment name without module, namespace and version; dm_control's by domain and task. Tasks without
# velocities and with sticky actions are other tasks, named after that.
TASKS: dict[str, tuple[Figure, ...]] = {
    "Pendulum": (
        Figure("CleanRL", -1142, 8 * MILLION),
        Figure("RL-Zoo", -172.2, 100_000, 104.2),
    ),
    "CartPole": (Figure("CleanRL", 490, 500_000), Figure("RL-Zoo", 500, 100_000)),
    "Pendulum, hide_velocity": (Figure("RL-Zoo", -218, 100_000),),
    "CartPole, hide_velocity": (Figure("RL-Zoo", 500, 100_000),),
    "Acrobot": (Figure("CleanRL", -86.4, 500_000), Figure("RL-Zoo", -73.5, MILLION)),
    "MountainCarContinuous": (Figure("RL-Zoo", 88, 20_000),),
    "LunarLander": (Figure("RL-Zoo", 242, MILLION),),
    "BipedalWalker": (
        Figure("RL-Zoo", 288, 5 * MILLION),
        Figure("CleanRL PPO", 172, 8 * MILLION, 96),
        Figure("CleanRL RPO", 227, 8 * MILLION, 18),
    ),
    "HalfCheetah": (
        Figure("CleanRL", 1443, MILLION, 46),
        Figure("RL-Zoo", 5819, MILLION, 664),
        Figure("TF-Agents", 4239, MILLION),
        Figure("Tianshou", 5780, MILLION, 1268),
        Figure("Tianshou, maximum", 5784, MILLION, 1244),
        Figure("Tianshou, maximum", 7194, 3 * MILLION),
        Figure("SLM-Lab", 6241, 10 * MILLION),
        Figure("rl_games", 7600, 16 * MILLION),
        Figure("rl_games SAC", 11_140, MILLION, 665),
        Figure("RL-Zoo TQC", 12_090, MILLION),
    ),
    "Hopper": (
        Figure("CleanRL", 2383, MILLION, 272),
        Figure("RL-Zoo", 2410, MILLION, 10),
        Figure("TF-Agents", 2530, MILLION),
        Figure("Tianshou", 2370, MILLION, 696),
        Figure("Tianshou, maximum", 2609, MILLION, 701),
        Figure("rl_games", 3400, 4 * MILLION),
        Figure("RL-Zoo TD3", 3606, MILLION),
        Figure("RL-Zoo TQC", 3754, MILLION),
    ),
    "Walker2d": (
        Figure("CleanRL", 2288, MILLION, 572),
        Figure("RL-Zoo", 3479, MILLION, 822),
        Figure("TF-Agents", 2971, MILLION),
        Figure("Tianshou", 3494, MILLION, 1025),
        Figure("Tianshou, maximum", 3589, MILLION, 757),
        Figure("rl_games", 5100, 3 * MILLION),
        Figure("rl_games", 6000, 10 * MILLION),
        Figure("RL-Zoo TD3", 4718, MILLION),
    ),
    "Ant": (
        Figure("RL-Zoo", 1327, MILLION, 452),
        Figure("Tianshou", 3258, MILLION, 1079),
        Figure("rl_games", 4900, 3 * MILLION),
        Figure("rl_games", 6200, 8 * MILLION),
        Figure("rl_games, v5", 4429, 8 * MILLION),
        Figure("SLM-Lab", 2138, 10 * MILLION),
        Figure("rl_games SAC", 4706, MILLION, 1379),
        Figure("RL-Zoo TD3", 5813, MILLION),
    ),
    "Humanoid": (
        Figure("CleanRL", 716, MILLION, 49),
        Figure("Tianshou", 787, MILLION, 194),
        Figure("rl_games", 7900, 4 * MILLION),
        Figure("rl_games", 9500, 10 * MILLION),
        Figure("SLM-Lab", 2661, 10 * MILLION),
        Figure("rl_games SAC", 5195, MILLION, 198),
        Figure("rl_games SAC", 7066, 5 * MILLION),
    ),
    "Reacher": (
        Figure("TF-Agents", -7.7, MILLION),
        Figure("Tianshou", -4.6, MILLION, 0.5),
        Figure("Tianshou, maximum", -4.1, MILLION),
        Figure("CleanRL RPO", -3.93, 8 * MILLION),
    ),
    "Swimmer": (
        Figure("RL-Zoo", 282, MILLION),
        Figure("TF-Agents", 47, MILLION),
        Figure("Tianshou", 66, MILLION, 100),
        Figure("Tianshou, maximum", 67, MILLION, 99),
        Figure("RL-Zoo TD3", 359, MILLION),
    ),
    "InvertedPendulum": (
        Figure("CleanRL", 963, MILLION, 22),
        Figure("TF-Agents", 1000, MILLION),
        Figure("Tianshou", 824, MILLION, 313),
        Figure("Tianshou, maximum", 1000, MILLION),
    ),
    "InvertedDoublePendulum": (
        Figure("TF-Agents", 9353, MILLION),
        Figure("Tianshou", 8695, MILLION, 1115),
        Figure("Tianshou, maximum", 9231, MILLION, 270),
        Figure("Sample Factory", 9350, 10 * MILLION),
    ),
    "HalfCheetahBulletEnv": (Figure("others", 1700, 300_000),),
    "InvertedPendulumBulletEnv": (Figure("others", 1000, 30_000),),
    "cheetah/run": _control(472, 566),
    "walker/walk": _control(306, 787),
    "walker/run": _control(128, 392),
    "finger/spin": _control(630, 849),
    "hopper/stand": _control(3, 404),
    "pendulum/swingup": _control(472, 774),
    "cartpole/swingup": _control(590, 613),
    "reacher/easy": _control(773, 717),
    "quadruped/walk": _control(247, 603),
    "ball_in_cup/catch": _control(935, 940),
    "humanoid/stand": _control(21, 140),
    "MiniGrid-DoorKey-5x5": (Figure("RL-Zoo", 0.964, 100_000),),
    "MiniGrid-Unlock": (Figure("RL-Zoo", 0.963, 100_000),),
    "Pong": (
        Figure("CleanRL", 20.4, 10 * MILLION),
        Figure("RL-Zoo", 20.99, 10 * MILLION),
    ),
    "Pong, sticky": (Figure("SLM-Lab", 16.7, 10 * MILLION),),
    "Breakout": (
        Figure("CleanRL", 415, 10 * MILLION),
        Figure("CleanRL, EnvPool", 466, 10 * MILLION),
    ),
    "Breakout, sticky": (Figure("SLM-Lab", 326, 10 * MILLION),),
    "BeamRider": (
        Figure("CleanRL", 1916, 10 * MILLION),
        Figure("RL-Zoo", 3397, 10 * MILLION),
    ),
}


def published(env: str) -> tuple[Figure, ...]:
    """Returns the published returns of a task; none if it is unknown.

    Args:
      env: Id of the environment, its wrappers, and `sticky` if actions are: `ale_py:ALE/Pong-v5`,
        `CartPole-v1, hide_velocity`, `ALE/Pong-v5, preprocess, sticky`.
    """
    env, *variants = env.split(", ")
    if env.startswith("dm_control/"):
        return TASKS.get(env.removeprefix("dm_control/"), ())
    name = re.sub(r"(NoFrameskip)?(-v\d+)?$", "", env.rpartition(":")[2].rpartition("/")[2])
    for variant in ("hide_velocity", "sticky"):
        if variant in variants:
            name += f", {variant}"
    return TASKS.get(name, ())


def best(figures: Sequence[Figure], steps: int) -> Figure | None:
    """Returns the best figure of the same budget, or the best one at all if there is none.

    Args:
      figures: Published returns of a task.
      steps: Environment steps of the row that is compared.
    """
    same = [figure for figure in figures if figure.steps <= SAME_BUDGET * steps]
    return max(same or figures, key=lambda figure: figure.mean, default=None)
