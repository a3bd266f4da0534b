"""Gymnasium's environments in the training process."""

from __future__ import annotations

from collections.abc import Sequence

from agents.backends.gymnasium_backend import GymnasiumBackend
from agents.types import EnvConstructor
from agents.vector.batch_env import BatchEnv


class Backend(GymnasiumBackend):
    """Steps environments one after another: to debug, or for very light environments."""

    def _join(self, constructors: list[EnvConstructor], info_keys: Sequence[str]) -> BatchEnv:
        envs = [make() for make in constructors]
        return BatchEnv(envs, blocking=True, info_keys=info_keys)
