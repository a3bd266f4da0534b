"""The interface of backends, and the one that the setting `env_backend` selects."""

from __future__ import annotations

import abc
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agents.errors import UsageError
from agents.own_copy import own_copy
from agents.settings.config import Config
from agents.settings.entry_points import load_function
from agents.settings.env_function import EnvFunction
from agents.types import Env, PlainData, Space, VectorEnv

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from agents.graph.in_graph_env import InGraphEnv

# A last wrapper: gets an environment's index in the batch and the environment.
IndexedWrapper = Callable[[int, Env], Env]


class EnvBackend(abc.ABC):
    """Looks up and creates the environments of an experiment.

    Each backend is a module of this package with the name that `env_backend` takes, whose class
    `Backend` implements this interface. None imports TensorFlow before environments are created.

    Attributes:
      takes_wrappers: Whether its environments take Gymnasium's wrappers.
      same_episodes: Whether seeds start the same episodes as in Gymnasium's environments.
    """

    takes_wrappers = True
    same_episodes = True

    def __init__(self, config: Config):
        """Serves the experiment `config`."""
        self._config = config

    def check(self) -> EnvSpec:
        """Looks up the environment and what it needs, without creating it and without TensorFlow.

        Modules named in `env` and in the wrappers are imported.

        Returns:
          The environment's specification; little more than its id where it is EnvPool's.

        Raises:
          UsageError: The module, the environment, a package that it needs or a wrapper is missing,
            or the backend does not support a setting. The message has at most three lines.
        """
        for setting in ("env_wrappers", "train_wrappers"):
            names = getattr(self._config, setting)
            if names and not self.takes_wrappers:
                raise UsageError(
                    f"{setting}: environments with env_backend '{self._config.env_backend}' take "
                    "no wrappers\nremove them, or use env_backend process"
                )
            for name in names:
                load_function(name, setting)
        if isinstance(self._config.env, EnvFunction) and not self.takes_wrappers:
            raise UsageError(
                f"env: a function makes Gymnasium's environments, got {self._config.env} with "
                f"env_backend '{self._config.env_backend}'\nuse env_backend process, hybrid or inline"
            )
        return self._find_spec()

    def make(
        self,
        spec: EnvSpec,
        num_envs: int,
        wrap: IndexedWrapper | None = None,
        info_keys: Sequence[str] = (),
        training: bool = False,
        env_kwargs: Mapping[str, PlainData] | None = None,
    ) -> VectorEnv | InGraphEnv:
        """Creates a batch of environments.

        Args:
          spec: Result of `check`.
          num_envs: Number of environments.
          wrap: A last wrapper of each environment; it may travel to another process.
          info_keys: Names of numbers in the infos to return for every step.
          training: Whether the environments get `config.train_wrappers`.
          env_kwargs: Arguments of the constructor besides `config.env_kwargs`.

        Raises:
          EnvironmentFailure: An environment could not be created.
          UnsupportedSpaceError: There is no network or action distribution for a space.
          UsageError: The environment does not take the arguments.
          ValueError: The backend takes no wrappers.
        """
        if wrap and not self.takes_wrappers:
            raise ValueError(
                f"Environments with env_backend '{self._config.env_backend}' take no wrappers."
            )
        all_kwargs = own_copy({**self._config.env_kwargs, **(env_kwargs or {})})
        return self._make(spec, num_envs, all_kwargs, wrap, info_keys, training)

    @abc.abstractmethod
    def _find_spec(self) -> EnvSpec:
        """See `check`."""

    @abc.abstractmethod
    def _make(
        self,
        spec: EnvSpec,
        num_envs: int,
        env_kwargs: dict[str, PlainData],
        wrap: IndexedWrapper | None,
        info_keys: Sequence[str],
        training: bool,
    ) -> VectorEnv | InGraphEnv:
        """See `make`; `env_kwargs` are all arguments of the constructor."""

    def _check_spaces(self, observation_space: Space, action_space: Space) -> None:
        """Raises UnsupportedSpaceError unless there are networks and policies for the spaces."""
        # Here, so that mistakes on the command line are reported before Gymnasium is imported.
        from agents.environments.wrappers.action_mask import check_action_mask
        from agents.spaces import check_action_space, check_policy, leaf_spaces

        leaf_spaces(observation_space)
        check_action_space(action_space)
        check_policy(action_space, self._config.policy)
        if self._config.action_mask:
            check_action_mask(observation_space, action_space)


def make_backend(config: Config) -> EnvBackend:
    """The backend that the setting `env_backend` selects."""
    backend: EnvBackend = importlib.import_module(f"agents.backends.{config.env_backend}").Backend(
        config
    )
    return backend
