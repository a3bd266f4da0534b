"""Warnings of MuJoCo."""

from __future__ import annotations

import warnings

PREFIX = "gymnasium.envs.mujoco."  # Of entry points.


def show_warnings_once() -> None:
    """Makes MuJoCo's warnings Python's, which shows equal ones once; a handler of the program's own stays.

    MuJoCo prints them for every environment and writes them to a file in the current folder.
    """
    import mujoco

    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_show)


def _show(message: str) -> None:
    # Gymnasium's HalfCheetah has an attribute that is deprecated: nothing that its user could change.
    if "deprecated" not in message:
        warnings.warn(f"MuJoCo: {message.strip()}", RuntimeWarning, stacklevel=2)
