"""PyBullet environments."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.types import Env

PREFIX = "pybullet_envs_gymnasium."  # Of entry points.


def connect(env: Env) -> None:
    """Connects an environment to a physics server of its own, except for human rendering.

    PyBullet's default is to look for a server in shared memory first, which may be one that another
    program runs on this machine.

    Args:
      env: A PyBullet environment without wrappers, before its first reset.
    """
    if env.render_mode == "human":
        return
    import pybullet
    from pybullet_utils.bullet_client import BulletClient

    with _suppress_stdout():  # Each server prints 'argv[0]='.
        client = BulletClient(connection_mode=pybullet.DIRECT)
    client.resetSimulation()
    client.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
    env._p, env.physicsClientId = client, client._client  # type: ignore[attr-defined]
    env.ownsPhysicsClient = True  # type: ignore[attr-defined]


@contextlib.contextmanager
def _suppress_stdout() -> Iterator[None]:
    """Discards standard output, including that of C++."""
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    stdout = os.dup(1)
    try:
        with open(os.devnull, "wb") as devnull:
            os.dup2(devnull.fileno(), 1)
        yield
    finally:
        flush(None)
        os.dup2(stdout, 1)
        os.close(stdout)
