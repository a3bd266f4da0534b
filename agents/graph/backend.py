"""Backends of environments, by the setting `env_backend`.

Gymnasium and TensorFlow are imported in functions only, after mistakes on the command line are
reported.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agents.errors import EnvironmentRaisedError, UnsupportedSpaceError, UsageError
from agents.own_copy import own_copy
from agents.settings.config import BOUNDED_ACTIONS, PYTHON_BACKENDS, Config, device_of
from agents.settings.entry_points import import_module, load_function
from agents.settings.env_function import EnvFunction
from agents.tensorflow_setup import quiet_tensorflow, start_tensorflow
from agents.types import Env, EnvConstructor, PlainData, Space, VectorEnv

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from agents.graph.in_graph_env import InGraphEnv
    from agents.vector.batch_env import BatchEnv

# A last wrapper: gets an environment's index in the batch and the environment.
IndexedWrapper = Callable[[int, Env], Env]


class EnvBackend(abc.ABC):
    """Finds and creates the environments of an experiment."""

    def __init__(self, config: Config):
        """Serves the experiment `config`."""
        self._config = config

    def check(self) -> EnvSpec:
        """Looks up the environment and its packages, without creating it and without TensorFlow.

        Modules named in `env` and in the wrappers are imported.

        Returns:
          The environment's specification; for EnvPool's environments little more than the id.

        Raises:
          UsageError: The module, the environment, a package that it needs or a wrapper is missing,
            or the backend does not support a setting. The message has at most three lines.
        """
        takes_wrappers = self._config.env_backend in PYTHON_BACKENDS
        for setting in ("env_wrappers", "train_wrappers"):
            names = getattr(self._config, setting)
            if names and not takes_wrappers:
                raise UsageError(
                    f"{setting}: environments with env_backend '{self._config.env_backend}' take "
                    "no wrappers\nremove them, or use env_backend process"
                )
            for name in names:
                load_function(name, setting)
        if isinstance(self._config.env, EnvFunction) and not takes_wrappers:
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
        training: bool = False,
        env_kwargs: Mapping[str, PlainData] | None = None,
    ) -> VectorEnv | InGraphEnv:
        """Creates a batch of environments.

        Args:
          spec: Result of `check`.
          num_envs: Number of environments.
          wrap: A last wrapper of each environment; it may travel to another process.
          training: Whether the environments get `config.train_wrappers`.
          env_kwargs: Arguments of the constructor, preferred to those of `config.env_kwargs`.

        Raises:
          EnvironmentFailure: An environment could not be created.
          UnsupportedSpaceError: There is no network or action distribution for a space.
          UsageError: The environment does not take the arguments.
        """
        all_kwargs = own_copy({**self._config.env_kwargs, **(env_kwargs or {})})
        return self._make(spec, num_envs, all_kwargs, wrap=wrap, training=training)

    @abc.abstractmethod
    def _find_spec(self) -> EnvSpec:
        """See `check`."""

    @abc.abstractmethod
    def _make(
        self,
        spec: EnvSpec,
        num_envs: int,
        env_kwargs: dict[str, PlainData],
        *,
        wrap: IndexedWrapper | None,
        training: bool,
    ) -> VectorEnv | InGraphEnv:
        """See `make`; `env_kwargs` are all arguments of the constructor."""

    def _check_spaces(self, observation_space: Space, action_space: Space) -> None:
        """Raises UnsupportedSpaceError unless there are networks and policies for the spaces."""
        from agents.environments.wrappers.action_mask import check_action_mask
        from agents.spaces import check_action_space, check_bounded, check_policy, leaf_spaces

        leaf_spaces(observation_space)
        check_action_space(action_space)
        if self._config.algorithm in BOUNDED_ACTIONS:
            check_bounded(action_space, self._config.algorithm)
        check_policy(action_space, self._config.policy)
        if self._config.action_mask:
            check_action_mask(observation_space, action_space)

    def _check_or_close(self, envs: VectorEnv) -> None:
        """Closes environments that can't be trained: by their spaces, or beside TensorFlow."""
        from agents.environments.rendering import check_software_rendering

        try:
            check_software_rendering()
            self._check_spaces(envs.single_observation_space, envs.single_action_space)
        except ValueError:
            envs.close()
            raise


class GymnasiumBackend(EnvBackend):
    """Finds environments in Gymnasium's registry and batches them with `BatchEnv`.

    `process` spreads them over worker processes. `hybrid` spreads them over workers and this
    process, which would otherwise wait: it is faster for light environments and few or busy cores,
    but an environment that hangs or crashes in this process stops the run. `inline` steps all of
    them here, one after another: to debug, or for very light environments.
    """

    def _find_spec(self) -> EnvSpec:
        from agents.environments.registration import find_spec
        from agents.graph import tensor_registration

        try:
            return find_spec(self._config.env)
        except UsageError:
            name = self._config.env.rpartition(":")[2]
            if tensor_registration.is_registered(name):
                raise UsageError(
                    f"env '{name}' is an environment in TensorFlow: it needs --env-backend=tf\n"
                    f"expected one of Gymnasium for env_backend {self._config.env_backend}"
                ) from None
            raise

    def _make(
        self,
        spec: EnvSpec,
        num_envs: int,
        env_kwargs: dict[str, PlainData],
        *,
        wrap: IndexedWrapper | None,
        training: bool,
    ) -> BatchEnv:
        from agents.environments.registration import make_env
        from agents.vector.process_batch import make_batch_env

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
            batch_env = make_batch_env(
                constructors,
                1 if config.env_backend == "inline" else config.num_processes,
                config.step_timeout,
                config.info_keys,
                config.start_timeout,
                config.env_restarts.limit,
                config.env_restarts.window,
                inline_share=config.env_backend != "process",
                wait_for=config.wait_for,
            )
        except EnvironmentRaisedError as error:
            # A constructor's UsageError arrives as text.
            kinds = {kind.__name__: kind for kind in (UsageError, UnsupportedSpaceError)}
            kind = kinds.get(error.type_name)
            reason = error.summary.partition(f" raised {error.type_name}: ")[2]
            if not kind or not reason:
                raise
            raise kind(reason) from None
        self._check_or_close(batch_env)
        if batch_env.restarts and not training:
            batch_env.restarts.role = "evaluation environment"
        return batch_env


class TensorFlowBackend(EnvBackend):
    """Environments in TensorFlow: the whole training iteration is one XLA program."""

    def _find_spec(self) -> EnvSpec:
        from agents.graph.tensor_registration import find_spec

        config = self._config
        if config.info_keys:
            raise UsageError(
                "info_keys: environments with env_backend 'tf' have no infos; remove info_keys"
            )
        module, _, name = config.env.rpartition(":")
        if module or name != config.env:
            import_module(module, f"env '{config.env}'")
        return find_spec(name)

    def _make(
        self, spec: EnvSpec, num_envs: int, env_kwargs: dict[str, PlainData], **_: object
    ) -> InGraphEnv:
        from agents.graph import tensor_registration

        config = self._config
        with quiet_tensorflow(reports=True):
            start_tensorflow(config.threads, device_of(config))
        envs = tensor_registration.make(
            spec.id, num_envs, config.max_episode_steps, config.action_repeat, **env_kwargs
        )
        self._check_spaces(envs.observation_space, envs.action_space)
        return envs


class EnvPoolBackend(EnvBackend):
    """EnvPool's own environments, in C++ threads."""

    def _find_spec(self) -> EnvSpec:
        from gymnasium.envs.registration import EnvSpec

        from agents.vector.envpool_env import check_env_pool

        config = self._config
        check_env_pool(config.env, config.env_kwargs, config.action_repeat)
        return EnvSpec(config.env)

    def _make(
        self, spec: EnvSpec, num_envs: int, env_kwargs: dict[str, PlainData], **_: object
    ) -> VectorEnv:
        from agents.vector.envpool_env import make_env_pool
        from agents.vector.process_batch import available_cores

        config = self._config
        num_threads = min(config.num_processes or available_cores(), num_envs)
        limit = config.max_episode_steps
        envs = make_env_pool(config.env, num_envs, num_threads, limit, env_kwargs)
        self._check_or_close(envs)
        return envs


def make_backend(config: Config) -> EnvBackend:
    """The backend that the setting `env_backend` selects."""
    kinds = {"tf": TensorFlowBackend, "envpool": EnvPoolBackend}
    return kinds.get(config.env_backend, GymnasiumBackend)(config)
