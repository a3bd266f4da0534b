"""Rendering: without a display, and by which camera.

Worker processes import this: it must not import TensorFlow.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator

from agents.errors import UsageError
from agents.types import Env

# Arguments of constructors with which users choose a camera.
_CAMERA_ARGUMENTS = {"camera_id", "camera_name", "default_camera_config", "render_kwargs"}

_FREE_CAMERA = -1  # MuJoCo's name for the camera that stays where it is.
_TRACKS_CENTER_OF_MASS = 2  # MuJoCo's mjCAMLIGHT_TRACKCOM: a camera's mode.


class RenderingError(UsageError):
    """An environment that can't be rendered as pixels."""


@contextlib.contextmanager
def rendering_without_display() -> Iterator[None]:
    """Makes environments of worker processes that are started inside render off-screen.

    Sets environment variables of this process and restores them at the end. Those that the user has
    set take precedence. Libraries read them on import: an environment of this process should not be
    made inside.
    """
    variables = {"PYGAME_HIDE_SUPPORT_PROMPT": "1", "SDL_VIDEODRIVER": "dummy"}
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        # MuJoCo's default needs X11. EGL is faster but needs a GPU, so users choose it themselves.
        variables["MUJOCO_GL"] = "osmesa"
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def reduce_render_quality(env: Env) -> None:
    """Makes MuJoCo's software rendering five times faster, with coarser edges and shadows.

    Args:
      env: An environment that was not rendered yet; its dynamics do not change.
    """
    # dm_control's environments keep their model in `physics`.
    owner = getattr(env.unwrapped, "physics", env.unwrapped)
    quality = getattr(getattr(getattr(owner, "model", None), "vis", None), "quality", None)
    if quality is not None and os.environ.get("MUJOCO_GL") == "osmesa":
        # The defaults, 4096 and 4, take 100 ms per frame of HalfCheetah.
        quality.shadowsize = min(quality.shadowsize, 1024)
        quality.offsamples = 0


def render_frame(env: Env) -> np.ndarray:
    """Renders an environment of render mode "rgb_array": uint8 [height, width, 3].

    Raises:
      RenderingError: The environment can't be rendered, or renders something else.
    """
    try:
        frame = env.render()  # uint8 [height, width, 3 or 4]
    except Exception as error:
        raise rendering_error(env.spec.id if env.spec else str(env), error) from error
    if (
        not isinstance(frame, np.ndarray)
        or frame.dtype != np.uint8
        or frame.ndim != 3
        or frame.shape[2] < 3
    ):
        found = (
            f"{frame.dtype} {list(frame.shape)}"
            if isinstance(frame, np.ndarray)
            else type(frame).__name__
        )
        raise RenderingError(
            f"{env} can't be recorded: it renders {found}, not uint8 [height, width, 3]"
        )
    return frame[..., :3]  # [height, width, 3], without an alpha channel.


def check_render_mode(env: Env) -> None:
    """Raises RenderingError if an environment was not made with render mode "rgb_array"."""
    if env.render_mode != "rgb_array":
        raise RenderingError(
            f"{env} can't be recorded: its render_mode is {env.render_mode}, not rgb_array"
        )


def check_rendering(spec: EnvSpec) -> None:
    """Checks whether an environment can be rendered, before it is made.

    Call this in the process that will host the environment: MuJoCo's rendering and TensorFlow may
    not work in one process.

    Args:
      spec: Gymnasium's specification; the environment's module is imported.

    Raises:
      RenderingError: The environment does not render pixels, or a rendering library is missing.
    """
    creator: object = spec.entry_point
    if isinstance(creator, str):
        try:
            creator = load_env_creator(creator)
        except Exception as error:
            raise rendering_error(spec.id, error) from error
    metadata = getattr(creator, "metadata", None)
    if metadata is None:  # Of a function, only the environment that it makes has metadata.
        return
    modes = metadata.get("render_modes", [])
    if "rgb_array" not in modes:
        known = f"only {', '.join(map(str, modes))}" if modes else "no rendering at all"
        raise RenderingError(
            f"environment '{spec.id}' can't be recorded: it has no render mode rgb_array ({known})"
        )


def check_software_rendering() -> None:
    """Raises UsageError if this process renders MuJoCo in software, where TensorFlow would crash.

    OSMesa loads an LLVM whose functions TensorFlow calls in place of its own: a segmentation fault
    on import, or when XLA compiles.
    """
    if "mujoco.osmesa" in sys.modules and "libLLVM" in Path("/proc/self/maps").read_text():
        raise UsageError(
            "MUJOCO_GL=osmesa has loaded software rendering into this process, where it crashes TensorFlow\n"
            "use env_backend process, or leave MUJOCO_GL out: training does not render"
        )


def rendering_error(name: str, error: Exception) -> RenderingError:
    """Describes an exception that loading or rendering the environment `name` raised."""
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


def choose_camera(env: Env, camera: str | None = None) -> None:
    """Chooses the camera that an environment of MuJoCo is rendered with.

    By default it is the model's first one that follows the center of mass of a body. Gymnasium's
    own default stays at the start, which HalfCheetah leaves within seconds. Models without such a
    camera, and environments whose arguments choose one, keep their camera.

    Args:
      env: An environment that was not rendered yet, with or without MuJoCo.
      camera: The name or index of one of the model's cameras.

    Raises:
      UsageError: The model has no such camera, or the environment has no model.
    """
    model = _model(env.unwrapped)
    if camera is not None:
        _set_camera(env.unwrapped, _find_camera(model, camera, env))
    elif model is not None and not _is_camera_chosen(env.unwrapped):
        tracking = [i for i in range(model.ncam) if model.cam_mode[i] == _TRACKS_CENTER_OF_MASS]
        if tracking:
            _set_camera(env.unwrapped, tracking[0])


# MuJoCo's classes, and those of environments, are known at run time only.
def _model(base: Any) -> Any:
    """Returns MuJoCo's model of an environment without wrappers; None if there is none."""
    if hasattr(base, "mujoco_renderer"):  # Gymnasium.
        return base.model
    model = getattr(getattr(base, "physics", None), "model", None)  # dm_control.
    return getattr(model, "ptr", None)


def _is_camera_chosen(base: Any) -> bool:
    arguments = base.spec.kwargs if base.spec else {}
    renderer = getattr(base, "mujoco_renderer", None)
    now = getattr(renderer, "camera_id", _FREE_CAMERA)
    return not _CAMERA_ARGUMENTS.isdisjoint(arguments) or now not in (None, _FREE_CAMERA)


def _set_camera(base: Any, index: int) -> None:
    if hasattr(base, "mujoco_renderer"):
        base.mujoco_renderer.camera_id = index
    else:
        base.render_kwargs = {**base.render_kwargs, "camera_id": index}


def _find_camera(model: Any, camera: str, env: Env) -> int:
    """Returns the index of the camera with a name or index."""
    env_name = env.spec.id if env.spec else str(env)
    if model is None:
        raise UsageError(
            f"--camera={camera}: environment '{env_name}' has no cameras; "
            "environments of MuJoCo and dm_control have some"
        )
    names = [model.camera(index).name for index in range(model.ncam)]
    if camera and camera in names:
        return names.index(camera)
    if camera.isdecimal() and int(camera) < len(names):
        return int(camera)
    known = ", ".join(
        f"{index} ({name})" if name else str(index) for index, name in enumerate(names)
    )
    raise UsageError(
        f"--camera={camera}: the model of '{env_name}' has no such camera; "
        + (f"expected one of {known}" if names else "it has the default camera only")
    )
