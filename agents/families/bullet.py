"""PyBullet's environments."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Any

PREFIX = "pybullet_envs_gymnasium."


def connect(env: Any) -> None:
    """Gives an environment a simulation of its own, unless a window is to show it.

    By itself it would first look for a simulation in shared memory, and take over one that somebody else runs on this
    machine.

    Args:
      env: An environment of PyBullet that was not reset yet, without wrappers.
    """
    if env.render_mode == "human":
        return
    import pybullet
    from pybullet_utils.bullet_client import BulletClient

    with _without_output():  # A line for every simulation, 'argv[0]='.
        client = BulletClient(connection_mode=pybullet.DIRECT)
    client.resetSimulation()
    client.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
    env._p, env.physicsClientId, env.ownsPhysicsClient = client, client._client, True


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    """Holds back what is written to standard output, by C++ too."""
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    stdout = os.dup(1)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        flush(None)
        os.dup2(stdout, 1)
        os.close(stdout)
