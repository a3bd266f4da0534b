"""Cameras of environments in MuJoCo: Gymnasium's and those of dm_control.

Worker processes import this: it must not import TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.errors import UsageError

if TYPE_CHECKING:
    from agents.types import Env

# Arguments of constructors with which users choose a camera.
_CAMERA_ARGUMENTS = {"camera_id", "camera_name", "default_camera_config", "render_kwargs"}

_FREE_CAMERA = -1  # MuJoCo's name for the camera that stays where it is.
_TRACKS_CENTER_OF_MASS = 2  # MuJoCo's mjCAMLIGHT_TRACKCOM: a camera's mode.


def choose_camera(env: Env, camera: str | None = None) -> None:
    """Chooses the camera that an environment of MuJoCo is rendered with.

    By default it is the model's first one that follows the center of mass of a body. Gymnasium's
    own default stays at the start, which HalfCheetah leaves within seconds. Models without such a
    camera, and environments whose arguments choose one, keep what they have.

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
            f"--camera={camera}: environment '{env_name}' has no cameras to choose from; "
            "those of MuJoCo and dm_control have"
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
        + (f"expected one of {known}" if names else "it has none besides the default one")
    )
