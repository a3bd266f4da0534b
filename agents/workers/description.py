"""Descriptions of environments: what a batch needs to know of each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium

if TYPE_CHECKING:
    from agents.types import Env, Space


class Description(NamedTuple):
    """What a batch needs to know of an environment; sent from the worker to its parent.

    Attributes:
      observation_space: Gymnasium's attribute of the same name.
      action_space: Gymnasium's attribute of the same name.
      metadata: Gymnasium's attribute of the same name.
      render_mode: Gymnasium's attribute of the same name.
      autoreset_layer: Name of the wrapper that starts the next episode automatically, None if there
        is none.
    """

    observation_space: Space
    action_space: Space
    metadata: dict[str, Any]
    render_mode: str | None
    autoreset_layer: str | None


def describe(env: Env) -> Description:
    """Returns the description of an environment."""
    return Description(
        env.observation_space,
        env.action_space,
        env.metadata,
        env.render_mode,
        find_autoreset_layer(env),
    )


def innermost(env: Env) -> Env:
    """Returns the environment inside of all wrappers."""
    return getattr(env, "unwrapped", env)


def find_autoreset_layer(env: Env) -> str | None:
    """Returns the name of the wrapper that starts the next episode automatically, or None."""
    layer: Env | None = env
    while layer is not None:
        # Not by its metadata: in Gymnasium 1.1 a SyncVectorEnv writes its own mode into those of
        # all environments.
        if isinstance(layer, gymnasium.wrappers.Autoreset):
            return type(layer).__name__
        layer = getattr(layer, "env", None)
    return None
