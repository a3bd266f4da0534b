"""Families of environments and the packages that they need."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from agents.errors import UsageError
from agents.settings.installation import install_command

# Entry points of environments that end their episodes without Gymnasium's time limit.
SELF_LIMITED = ("agents.environments.dm_control:", "ale_py.", "minigrid.")


@dataclass(frozen=True)
class Family:
    """A family of environments from one source.

    Attributes:
      entry_point_prefix: Start of its environments' entry points.
      packages: Import names of the packages that it needs.
      extra: The extra of this library that installs them.
      id_prefix: Start of its environments' ids; used to find the family before its environments
        are registered.
      id_infix: A part of these ids.
      module: Module that registers its environments; empty for those that Gymnasium registers.
    """

    entry_point_prefix: str
    packages: tuple[str, ...]
    extra: str
    id_prefix: str = ""
    id_infix: str = ""
    module: str = ""

    def registers(self, env: str) -> bool:
        """Returns whether this family's module has to be imported before the id `env` is registered."""
        begins = env.lower().startswith(self.id_prefix.lower())  # Misspelled ids get suggestions.
        return bool(self.module) and begins and self.id_infix in env

    def has(self, env: str, entry_point: str) -> bool:
        """Returns whether an environment with this id, or else with this entry point, is of the family."""
        named = bool(self.id_prefix or self.id_infix)
        if named and env.startswith(self.id_prefix) and self.id_infix in env:
            return True
        return entry_point.startswith(self.entry_point_prefix)

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
                    f"{install_command(self.extra)}"
                )


DM_CONTROL = Family(
    "agents.environments.dm_control:",
    ("dm_control", "shimmy", "mujoco"),
    "dm-control",
    "dm_control/",
)
FAMILIES = (
    DM_CONTROL,
    Family("ale_py.", ("ale_py", "cv2"), "atari", id_prefix="ALE/", module="ale_py"),
    Family("ale_py.", ("ale_py", "cv2"), "atari", id_infix="NoFrameskip-", module="ale_py"),
    Family("gymnasium.envs.box2d.", ("Box2D",), "box2d"),
    Family("gymnasium.envs.mujoco.", ("mujoco", "imageio"), "mujoco"),
    Family("gymnasium.envs.phys2d.", ("jax",), "jax"),
    Family("gymnasium.envs.tabular.", ("jax",), "jax"),
    Family("minigrid.", ("minigrid",), "minigrid", id_prefix="MiniGrid-", module="minigrid"),
    Family("minigrid.", ("minigrid",), "minigrid", id_prefix="BabyAI-", module="minigrid"),
    Family(
        "pybullet_envs_gymnasium.",
        ("pybullet", "pybullet_envs_gymnasium"),
        "bullet",
        id_infix="BulletEnv-",
        module="pybullet_envs_gymnasium",
    ),
)


def family_of(env: str) -> Family | None:
    """Returns the family of an environment, by its id; None for other and unknown ids."""
    import gymnasium

    spec = gymnasium.registry.get(env)
    entry_point = spec.entry_point if spec and isinstance(spec.entry_point, str) else ""
    return next((family for family in FAMILIES if family.has(env, entry_point)), None)
