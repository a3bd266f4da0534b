"""Gymnasium's environments in the training process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from agents.backends.gymnasium_backend import GymnasiumBackend
from agents.types import Env, EnvConstructor
from agents.vector.batch_env import BatchEnv


class Backend(GymnasiumBackend):
    """Steps environments one after another: to debug, or for very light environments."""

    def _join(self, constructors: list[EnvConstructor], info_keys: Sequence[str]) -> BatchEnv:
        envs: list[Env] = []
        try:
            for make in constructors:
                envs.append(make())
            return BatchEnv(envs, blocking=True, info_keys=info_keys)
        except BaseException:
            for env in envs:
                with contextlib.suppress(Exception):  # The first error counts.
                    env.close()
            raise
