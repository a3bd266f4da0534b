"""Families of environments and the packages that they need."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from agents.errors import UsageError


@dataclass(frozen=True)
class Family:
    """Environments that come from one place.

    Attributes:
      entry_point_prefix: Start of its environments' entry points.
      packages: Import names of the packages that it needs.
      requirement: What pip installs them by.
      id_prefix: Start of its environments' ids; used to find the family before its environments
        are registered.
      id_infix: A part of these ids.
      module: Module that registers its environments; empty for those that Gymnasium registers.
    """

    entry_point_prefix: str
    packages: tuple[str, ...]
    requirement: str
    id_prefix: str = ""
    id_infix: str = ""
    module: str = ""

    def registers(self, env: str) -> bool:
        """Whether this family's module has to be imported before the id `env` is registered."""
        return bool(self.module) and env.startswith(self.id_prefix) and self.id_infix in env

    def check_packages(self, env: str) -> None:
        """Checks that the packages are installed.

        Args:
          env: The environment's id, for the message.

        Raises:
          UsageError: A package is not installed.
        """
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                raise UsageError(
                    f"environment '{env}' needs the package {package}, which is not installed\n"
                    f"pip install '{self.requirement}'"
                )


DM_CONTROL = Family(
    "agents.environments.dm_control:", ("dm_control", "shimmy"), "agents[dm-control]", "dm_control/"
)
FAMILIES = (
    DM_CONTROL,
    Family("ale_py.", ("ale_py", "cv2"), "agents[atari]", id_prefix="ALE/", module="ale_py"),
    Family("gymnasium.envs.box2d.", ("Box2D",), "agents[box2d]"),
    Family("gymnasium.envs.mujoco.", ("mujoco", "imageio"), "agents[mujoco]"),
    Family("gymnasium.envs.phys2d.", ("jax",), "gymnasium[jax]"),
    Family("gymnasium.envs.tabular.", ("jax",), "gymnasium[jax]"),
    Family(
        "minigrid.", ("minigrid",), "agents[minigrid]", id_prefix="MiniGrid-", module="minigrid"
    ),
    Family("minigrid.", ("minigrid",), "agents[minigrid]", id_prefix="BabyAI-", module="minigrid"),
    Family(
        "pybullet_envs_gymnasium.",
        ("pybullet", "pybullet_envs_gymnasium"),
        "agents[bullet]",
        id_infix="BulletEnv-",
        module="pybullet_envs_gymnasium",
    ),
)
