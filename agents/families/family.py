"""Which families of environments there are, and what they need."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from agents.tools.errors import UsageError


@dataclass(frozen=True)
class Family:
    """Environments that come from one place.

    Attributes:
      prefix: What the entry points of its environments begin with.
      packages: Names, for importing, of the packages that it needs.
      install: What to give pip to have them.
      begins: What its ids begin with, where they are not known before a module is imported.
      contains: What these ids contain.
      module: This module.
    """

    prefix: str
    packages: tuple[str, ...]
    install: str
    begins: str = ""
    contains: str = ""
    module: str = ""

    def registers(self, env: str) -> bool:
        """Whether its module has to be imported before Gymnasium knows the environment."""
        return bool(self.module) and env.startswith(self.begins) and self.contains in env

    def check_packages(self, env: str) -> None:
        """Raises UsageError where a package is missing; `env` is the environment's id."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                raise UsageError(
                    f"environment '{env}' needs the package {package}, which is not installed\n"
                    f"pip install '{self.install}'"
                )


DM_CONTROL = Family("agents.families.dm_control:", ("dm_control", "shimmy"), "agents[dm-control]", "dm_control/")
FAMILIES = (
    DM_CONTROL,
    Family("ale_py.", ("ale_py", "cv2"), "agents[atari]", begins="ALE/", module="ale_py"),
    Family("gymnasium.envs.box2d.", ("Box2D",), "agents[box2d]"),
    Family("gymnasium.envs.mujoco.", ("mujoco", "imageio"), "agents[mujoco]"),
    Family("gymnasium.envs.phys2d.", ("jax",), "gymnasium[jax]"),
    Family("gymnasium.envs.tabular.", ("jax",), "gymnasium[jax]"),
    Family("minigrid.", ("minigrid",), "agents[minigrid]", begins="MiniGrid-", module="minigrid"),
    Family("minigrid.", ("minigrid",), "agents[minigrid]", begins="BabyAI-", module="minigrid"),
    Family(
        "pybullet_envs_gymnasium.",
        ("pybullet", "pybullet_envs_gymnasium"),
        "agents[bullet]",
        contains="BulletEnv-",
        module="pybullet_envs_gymnasium",
    ),
)
