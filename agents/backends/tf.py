"""Environments in TensorFlow, as part of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents import tensor_envs
from agents.backends.backend import EnvBackend, IndexedWrapper
from agents.errors import UsageError
from agents.runtime.tensorflow_setup import start_tensorflow
from agents.settings.derived import device_of
from agents.settings.entry_points import import_module
from agents.tensor_envs.registration import find_spec
from agents.tensorflow_messages import quiet_tensorflow
from agents.types import PlainData

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from agents.graph.in_graph_env import InGraphEnv


class Backend(EnvBackend):
    """Makes the whole training iteration one XLA program."""

    takes_wrappers = False
    same_episodes = False

    def _find_spec(self) -> EnvSpec:
        config = self._config
        if config.info_keys:
            raise UsageError(
                "info_keys: environments with env_backend 'tf' have no infos; remove info_keys"
            )
        module, _, name = config.env.rpartition(":")
        if module or name != config.env:
            with quiet_tensorflow():  # The module imports TensorFlow.
                import_module(module, f"env '{config.env}'")
        return find_spec(name)

    def _make(
        self,
        spec: EnvSpec,
        num_envs: int,
        env_kwargs: dict[str, PlainData],
        wrap: IndexedWrapper | None,
        info_keys: Sequence[str],
        training: bool,
    ) -> InGraphEnv:
        config = self._config
        start_tensorflow(config.threads, device_of(config))  # Prints fewer lines than its import.
        envs = tensor_envs.make(
            spec.id, num_envs, config.max_episode_steps, config.action_repeat, **env_kwargs
        )
        self._check_spaces(envs.observation_space, envs.action_space)
        return envs
