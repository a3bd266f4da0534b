"""Constructors of the environments that all contestants step."""

from __future__ import annotations

import functools
from collections.abc import Callable

import gymnasium

from agents.types import Env


def constructors(env: str, num_envs: int) -> list[Callable[[], Env]]:
    """Returns constructors of equal environments, without Gymnasium's checks of every step."""
    return [functools.partial(gymnasium.make, env, disable_env_checker=True)] * num_envs
