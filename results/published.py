"""Published returns of other libraries' PPO, and target returns; see SOURCES for what differs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """Where figures come from.

    Attributes:
      runs: How many runs they are of.
      protocol: What is published of them: `last`, `maximum` or `training`, see `PROTOCOLS`.
      versions: Of MuJoCo's environments, or another family.
    """

    runs: str
    protocol: str
    versions: str = ""


PROTOCOLS = {
    "last": "evaluations at the end of training",
    "maximum": "the highest point of the mean over runs, anywhere in training",
    "training": "returns of the last training episodes, with exploration",
}

SOURCES = {
    "CleanRL": Source("three seeds", "training", "MuJoCo v4"),
    "RL-Zoo": Source("one run, tuned for the task", "last", "MuJoCo v3"),
    "TF-Agents": Source("three runs", "last", "MuJoCo v2"),
    "Tianshou": Source("ten seeds", "last", "MuJoCo v3; v2 for Reacher and the pendulums"),
    "Tianshou, maximum": Source(
        "ten seeds", "maximum", "MuJoCo v3; v2 for Reacher and the pendulums"
    ),
    "Tianshou, 3M": Source("ten seeds", "maximum", "MuJoCo v3"),
    "rl_games": Source(
        "curves of its documentation, of a number of runs that is not known",
        "training",
        "EnvPool, MuJoCo v4; v5 for Ant",
    ),
    "CleanRL PPO": Source("ten seeds", "training", "dm_control"),
    "CleanRL RPO": Source("ten seeds", "training", "dm_control"),
    "others": Source("a PPO course's notebook, with a tanh-squashed Gaussian", "last", "PyBullet"),
}


@dataclass(frozen=True)
class Figure:
    """A mean return after a number of environment steps; `std` is None where none is published."""

    mean: float
    steps: int
    std: float | None = None


@dataclass(frozen=True)
class Task:
    """The published returns of one environment.

    Attributes:
      figures: Published returns by source, a key of `SOURCES`.
      target: The return to reach, and after how many steps.
    """

    figures: dict[str, Figure] = field(default_factory=dict)
    target: Figure | None = None


MILLION = 1_000_000


def _control(ppo: float, rpo: float) -> Task:
    """A task of dm_control with CleanRL's figures after eight million steps; the target is PPO's."""
    figures = {"CleanRL PPO": Figure(ppo, 8 * MILLION), "CleanRL RPO": Figure(rpo, 8 * MILLION)}
    return Task(figures, figures["CleanRL PPO"])


# By environment name without module, namespace and version; dm_control's by domain and task. Tasks without
# velocities are other tasks, named after their wrapper.
TASKS = {
    "Pendulum": Task(
        {"CleanRL": Figure(-1142, 8 * MILLION), "RL-Zoo": Figure(-172.2, 100_000, 104.2)},
        Figure(-172.2, 100_000),
    ),
    "CartPole": Task(
        {"CleanRL": Figure(490, 500_000), "RL-Zoo": Figure(500, 100_000)}, Figure(500, 100_000)
    ),
    "Pendulum, hide_velocity": Task({"RL-Zoo": Figure(-218, 100_000)}, Figure(-218, 100_000)),
    "CartPole, hide_velocity": Task({"RL-Zoo": Figure(500, 100_000)}, Figure(500, 100_000)),
    "Acrobot": Task(
        {"CleanRL": Figure(-86.4, 500_000), "RL-Zoo": Figure(-73.5, MILLION)},
        Figure(-73.5, MILLION),
    ),
    "MountainCarContinuous": Task({"RL-Zoo": Figure(88, 20_000)}, Figure(88, 20_000)),
    "LunarLander": Task({"RL-Zoo": Figure(242, MILLION)}, Figure(242, MILLION)),
    "BipedalWalker": Task({"RL-Zoo": Figure(288, 5 * MILLION)}, Figure(288, 5 * MILLION)),
    "HalfCheetah": Task(
        {
            "CleanRL": Figure(1443, MILLION, 46),
            "RL-Zoo": Figure(5819, MILLION, 664),
            "TF-Agents": Figure(4239, MILLION),
            "Tianshou": Figure(5780, MILLION, 1268),
            "Tianshou, maximum": Figure(5784, MILLION, 1244),
            "Tianshou, 3M": Figure(7194, 3 * MILLION),
            "rl_games": Figure(7600, 16 * MILLION),
        },
        Figure(5800, MILLION),
    ),
    "Hopper": Task(
        {
            "CleanRL": Figure(2383, MILLION, 272),
            "RL-Zoo": Figure(2410, MILLION, 10),
            "TF-Agents": Figure(2530, MILLION),
            "Tianshou": Figure(2370, MILLION, 696),
            "Tianshou, maximum": Figure(2609, MILLION, 701),
            "rl_games": Figure(3400, 4 * MILLION),
        },
        Figure(2600, MILLION),
    ),
    "Walker2d": Task(
        {
            "CleanRL": Figure(2288, MILLION, 572),
            "RL-Zoo": Figure(3479, MILLION, 822),
            "TF-Agents": Figure(2971, MILLION),
            "Tianshou": Figure(3494, MILLION, 1025),
            "Tianshou, maximum": Figure(3589, MILLION, 757),
            "rl_games": Figure(5100, 3 * MILLION),
        },
        Figure(3500, MILLION),
    ),
    "Ant": Task(
        {
            "RL-Zoo": Figure(1327, MILLION, 452),
            "Tianshou": Figure(3258, MILLION, 1079),
            "rl_games": Figure(4000, 8 * MILLION),
        },
        Figure(3200, MILLION),
    ),
    "Humanoid": Task(
        {
            "CleanRL": Figure(716, MILLION, 49),
            "Tianshou": Figure(787, MILLION, 194),
            "rl_games": Figure(7900, 4 * MILLION),
        },
        Figure(790, MILLION),
    ),
    "Reacher": Task(
        {
            "TF-Agents": Figure(-7.7, MILLION),
            "Tianshou": Figure(-4.6, MILLION, 0.5),
            "Tianshou, maximum": Figure(-4.1, MILLION),
        },
        Figure(-4.1, MILLION),
    ),
    "Swimmer": Task(
        {
            "RL-Zoo": Figure(282, MILLION),
            "TF-Agents": Figure(47, MILLION),
            "Tianshou": Figure(66, MILLION, 100),
            "Tianshou, maximum": Figure(67, MILLION, 99),
        },
        Figure(100, MILLION),
    ),
    "InvertedPendulum": Task(
        {
            "CleanRL": Figure(963, MILLION, 22),
            "TF-Agents": Figure(1000, MILLION),
            "Tianshou": Figure(824, MILLION, 313),
            "Tianshou, maximum": Figure(1000, MILLION),
        },
        Figure(1000, MILLION),
    ),
    "InvertedDoublePendulum": Task(
        {
            "TF-Agents": Figure(9353, MILLION),
            "Tianshou": Figure(8695, MILLION, 1115),
            "Tianshou, maximum": Figure(9231, MILLION, 270),
        },
        Figure(9300, MILLION),
    ),
    "HalfCheetahBulletEnv": Task({"others": Figure(1700, 300_000)}, Figure(1700, 300_000)),
    "InvertedPendulumBulletEnv": Task({"others": Figure(1000, 30_000)}, Figure(1000, 30_000)),
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
    "MiniGrid-DoorKey-5x5": Task({"RL-Zoo": Figure(0.964, 100_000)}, Figure(0.96, 100_000)),
    "MiniGrid-Unlock": Task({"RL-Zoo": Figure(0.963, 100_000)}, Figure(0.96, 100_000)),
    "Pong": Task({"CleanRL": Figure(20.4, 10 * MILLION)}, Figure(0, 2 * MILLION)),
    "Breakout": Task({"CleanRL": Figure(415, 10 * MILLION)}, Figure(415, 10 * MILLION)),
    "BeamRider": Task({"CleanRL": Figure(1916, 10 * MILLION)}, Figure(1916, 10 * MILLION)),
}


def published(env: str) -> Task:
    """Returns the published returns of a task; an empty one if unknown.

    Args:
      env: Id of the environment, and its wrappers: `ale_py:ALE/Pong-v5`, `CartPole-v1, hide_velocity`.
    """
    env, *wrappers = env.split(", ")
    if env.startswith("dm_control/"):
        return TASKS.get(env.removeprefix("dm_control/"), Task())
    name = re.sub(r"(NoFrameskip)?(-v\d+)?$", "", env.rpartition(":")[2].rpartition("/")[2])
    if "hide_velocity" in wrappers:
        name += ", hide_velocity"
    return TASKS.get(name, Task())
