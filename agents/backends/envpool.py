"""EnvPool's environments, in C++ threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.backends.backend import EnvBackend, IndexedWrapper
from agents.types import PlainData, VectorEnv
from agents.vector.batch_hosts import available_cores

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec


class Backend(EnvBackend):
    """Steps environments of EnvPool's own in its threads."""

    takes_wrappers = False
    same_episodes = False

    def _find_spec(self) -> EnvSpec:
        from gymnasium.envs.registration import EnvSpec

        from agents.adapters.envpool_env import check_env_pool

        config = self._config
        check_env_pool(config.env, config.env_kwargs, config.action_repeat)
        return EnvSpec(config.env)

    def _make(
        self,
        spec: EnvSpec,
        num_envs: int,
        env_kwargs: dict[str, PlainData],
        wrap: IndexedWrapper | None,
        info_keys: Sequence[str],
        training: bool,
    ) -> VectorEnv:
        from agents.adapters.envpool_env import make_env_pool

        config = self._config
        num_threads = min(config.num_processes or available_cores(), num_envs)
        limit = config.max_episode_steps
        envs = make_env_pool(config.env, num_envs, num_threads, limit, env_kwargs)
        try:
            self._check_spaces(envs.single_observation_space, envs.single_action_space)
        except ValueError:
            envs.close()
            raise
        return envs
