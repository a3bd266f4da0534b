"""Tasks of DeepMind's control suite, `dm_control/<domain>/<task>`."""

from __future__ import annotations

import ast
import importlib.util
import warnings
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import EnvSpec

from agents.errors import UsageError
from agents.suggestion import did_you_mean
from agents.types import Env


def find_spec(env: str) -> EnvSpec:
    """Returns Gymnasium's specification of a task; dm_control must be installed.

    Args:
      env: dm_control/<domain>/<task>. The specification's id is dm_control/<domain>-<task>-v0,
        because Gymnasium allows no second slash.

    Raises:
      UsageError: There is no such domain or task.
    """
    _, _, name = env.partition("/")
    known = _tasks()
    if name not in known:
        raise UsageError(
            f"unknown environment '{env}'{did_you_mean(env, [f'dm_control/{task}' for task in known])}"
        )
    domain, _, task = name.partition("/")
    return EnvSpec(
        f"dm_control/{domain}-{task}-v0",
        f"{__name__}:make_task",
        kwargs={"domain": domain, "task": task},
    )


def make_task(
    domain: str,
    task: str,
    task_kwargs: dict[str, Any] | None = None,
    environment_kwargs: dict[str, Any] | None = None,
    visualize_reward: bool = False,
    render_mode: str | None = None,
    render_kwargs: dict[str, Any] | None = None,
) -> Env:
    """Makes an environment whose observations are a Dict of float64 Boxes; time limits truncate.

    Args:
      domain: Such as cheetah.
      task: Such as run.
      task_kwargs: For the task, such as `time_limit` in seconds.
      environment_kwargs: For dm_control's environment.
      visualize_reward: Whether colors show the reward.
      render_mode: Gymnasium's render mode.
      render_kwargs: For rendering, such as width, height and camera_id.
    """
    with warnings.catch_warnings():
        # GLFW warns on import that there is no display, but nothing is rendered with it.
        warnings.filterwarnings("ignore", message=".*DISPLAY environment variable is missing")
        from dm_control import suite
        from shimmy.dm_control_compatibility import DmControlCompatibilityV0

    # Some tasks sample their bodies when they are made, which reset(seed=...) does not repeat.
    task_kwargs = {"random": 0, **(task_kwargs or {})}
    env: Env = DmControlCompatibilityV0(
        suite.load(domain, task, task_kwargs, environment_kwargs, visualize_reward),
        render_mode,
        render_kwargs,
    )
    # Shimmy's frame rate is in milliseconds, in a dictionary that all environments share.
    frame_rate = round(1 / env.dt)  # type: ignore[attr-defined]
    env.metadata = {**env.metadata, "render_fps": frame_rate}
    return env


def _tasks() -> list[str]:
    """Returns the suite's tasks as <domain>/<task>.

    The suite's source is parsed, not imported: the import takes seconds, and with OSMesa as the
    renderer its LLVM crashes in TensorFlow's process.
    """
    package = importlib.util.find_spec("dm_control")
    folders = (package.submodule_search_locations or []) if package else []
    return sorted(
        f"{path.stem}/{function.name}"
        for folder in folders
        for path in Path(folder, "suite").glob("*.py")
        for function in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(function, ast.FunctionDef)
        and any(
            ast.unparse(decorator).startswith("SUITE.add(") for decorator in function.decorator_list
        )
    )
