"""PyBullet's environments."""

from __future__ import annotations

from typing import Any

PREFIX = "pybullet_envs_gymnasium."


def connect(env: Any) -> None:
    """Gives an environment a simulation of its own, unless a window is to show it.

    By itself it would look for a simulation in shared memory first: it would take over one that somebody else runs on
    this machine, and where there is none, it prints a line for every environment.

    Args:
      env: An environment of PyBullet that was not reset yet, without wrappers.
    """
    if env.render_mode == "human":
        return
    import pybullet
    from pybullet_utils.bullet_client import BulletClient

    client = BulletClient(connection_mode=pybullet.DIRECT)
    client.resetSimulation()
    client.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
    env._p, env.physicsClientId, env.ownsPhysicsClient = client, client._client, True
