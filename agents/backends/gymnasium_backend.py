"""What the backends of Gymnasium's environments have in common."""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.backends.backend import EnvBackend, IndexedWrapper
from agents.environments.registration import find_spec, make_env
from agents.errors import EnvironmentRaisedError, UnsupportedSpaceError, UsageError
from agents.types import EnvConstructor, PlainData
from agents.vector.batch_env import BatchEnv

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec


class GymnasiumBackend(EnvBackend):
    """Looks up environments in Gymnasium's registry and batches them with `BatchEnv`."""

    def _find_spec(self) -> EnvSpec:
        return find_spec(self._config.env)

    def _make(
        self,
        spec: EnvSpec,
        num_envs: int,
        env_kwargs: dict[str, PlainData],
        wrap: IndexedWrapper | None,
        info_keys: Sequence[str],
        training: bool,
    ) -> BatchEnv:
        config = self._config
        make = functools.partial(
            make_env,
            spec,
            env_kwargs,
            config.max_episode_steps,
            config.action_repeat,
            config.env_wrappers,
            config.action_mask,
            train_wrappers=config.train_wrappers if training else (),
            reset_options=config.reset_options,
        )
        constructors: list[EnvConstructor] = [
            functools.partial(make, wrap=wrap and functools.partial(wrap, index))
            for index in range(num_envs)
        ]
        try:
            batch_env = self._join(constructors, info_keys)
        except EnvironmentRaisedError as error:
            usage_error = _as_usage_error(error)
            if usage_error is None:
                raise
            raise usage_error from None
        try:
            self._check_spaces(batch_env.single_observation_space, batch_env.single_action_space)
        except ValueError:
            batch_env.close()
            raise
        return batch_env

    @abc.abstractmethod
    def _join(self, constructors: list[EnvConstructor], info_keys: Sequence[str]) -> BatchEnv:
        """Creates the environments and joins them into a batch."""


def _as_usage_error(error: EnvironmentRaisedError) -> UsageError | None:
    """A UsageError of a constructor, which arrives as text; None for any other error."""
    kinds = {kind.__name__: kind for kind in (UsageError, UnsupportedSpaceError)}
    kind = kinds.get(error.type_name)
    reason = error.summary.partition(f" raised {error.type_name}: ")[2]
    return kind(reason) if kind and reason else None
