"""Gymnasium's environments in worker processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.backends.gymnasium_backend import GymnasiumBackend
from agents.types import EnvConstructor
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env


class Backend(GymnasiumBackend):
    """Spreads environments over worker processes, which step them in parallel."""

    _inline_share: ClassVar[bool] = False

    def _join(self, constructors: list[EnvConstructor], info_keys: Sequence[str]) -> BatchEnv:
        config = self._config
        return make_batch_env(
            constructors,
            config.num_processes,
            config.step_timeout,
            info_keys,
            config.start_timeout,
            config.env_restarts.limit,
            config.env_restarts.window,
            self._inline_share,
            config.wait_for,
        )
