"""Gymnasium's environments in the training process."""

from __future__ import annotations

from collections.abc import Sequence

from agents.backends.gymnasium_backend import GymnasiumBackend
from agents.types import EnvConstructor
from agents.vector.batch_env import BatchEnv
from agents.workers.host import LocalHost
from agents.workers.worker_host import close_hosts


class Backend(GymnasiumBackend):
    """Steps environments one after another: to debug, or for very light environments."""

    def _join(self, constructors: list[EnvConstructor], info_keys: Sequence[str]) -> BatchEnv:
        hosts: list[LocalHost] = []
        restarts = self._config.env_restarts
        try:
            for index, constructor in enumerate(constructors):
                hosts.append(LocalHost(constructor, index))
            return BatchEnv(hosts, True, info_keys, restarts.limit, restarts.window)
        except BaseException:
            close_hosts(hosts)
            raise
