"""Rendering on machines without a display. Worker processes import this: it must not import TensorFlow."""

from __future__ import annotations

import ctypes.util
import os
import sys
import traceback
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from agents.tools.errors import UsageError


class RenderingError(UsageError):
    """An environment that can't be rendered as pixels."""


def render_without_display() -> None:
    """Makes environments of this process, and of processes it starts, draw into memory.

    What the user has set in the process's environment goes before. Libraries read it when they are imported: call this
    before environments are made.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        # MuJoCo would ask X11 for a window. EGL is faster where there is a GPU, which the user knows.
        os.environ.setdefault("MUJOCO_GL", "osmesa")


def ease_drawing(env: gymnasium.Env) -> None:
    """Makes MuJoCo draw five times faster where it draws without a graphics card, at coarser edges and shadows.

    Args:
      env: An environment that was not rendered yet; how it behaves does not change.
    """
    # dm_control's environments keep their model elsewhere.
    holder: Any = getattr(env.unwrapped, "physics", env.unwrapped)
    quality: Any = getattr(getattr(getattr(holder, "model", None), "vis", None), "quality", None)
    if quality is not None and os.environ.get("MUJOCO_GL") == "osmesa":
        quality.shadowsize = min(quality.shadowsize, 1024)  # 4096 and 4 by default: 100 ms a frame of HalfCheetah.
        quality.offsamples = 0


def check_rendering(spec: EnvSpec) -> None:
    """Finds out what can be known about rendering before an environment is made.

    To be called where the environment will live: MuJoCo's rendering and TensorFlow may not bear each other.

    Args:
      spec: What Gymnasium registered the environment as; its module is imported.

    Raises:
      RenderingError: It renders no arrays of pixels, or the library that draws is missing.
    """
    creator: Any = spec.entry_point
    if isinstance(creator, str):
        try:
            creator = load_env_creator(creator)
        except Exception as error:
            raise rendering_error(spec.id, error) from error
    metadata = getattr(creator, "metadata", None)
    if metadata is None:  # A function: what it makes will tell.
        return
    modes = metadata.get("render_modes", [])
    if "rgb_array" not in modes:
        known = f"only {', '.join(map(str, modes))}" if modes else "no rendering at all"
        raise RenderingError(
            f"environment '{spec.id}' can't be recorded: it has no rgb_array rendering, which gives pixels ({known})"
        )


def rendering_error(name: str, error: Exception) -> RenderingError:
    """What to tell people about an exception that loading or rendering the environment `name` raised."""
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    backend = os.environ.get("MUJOCO_GL", "")
    if "mujoco" in "".join(traceback.format_exception(error)).lower():
        if backend == "osmesa" and ctypes.util.find_library("OSMesa") is None:
            return RenderingError(
                f"environment '{name}' can't be rendered: MuJoCo needs the library OSMesa to draw without a display\n"
                "install Debian's libosmesa6 (apt-get install libosmesa6), or set MUJOCO_GL=egl where there is a GPU"
            )
        reason += f" (MUJOCO_GL={backend})"
    return RenderingError(f"environment '{name}' can't be rendered: {reason}")
