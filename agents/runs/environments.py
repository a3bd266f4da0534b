"""From a configuration to environments. Worker processes import this: it must not import TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from agents import envs, families
from agents.named import load_function
from agents.runs.rendering import check_rendering
from agents.runs.tensorflow_setup import start_tensorflow
from agents.tools import wrappers
from agents.tools.action_mask import check_action_mask, with_action_mask
from agents.tools.batch_env import BatchEnv, available_cores, make_batch_env
from agents.tools.errors import UsageError
from agents.tools.spaces import check_action_space, leaf_spaces

if TYPE_CHECKING:
    from agents.config import Config
    from agents.tools.in_graph_env import InGraphEnv


def make_env(
    spec: EnvSpec,
    env_kwargs: dict[str, Any],
    max_episode_steps: int = 0,
    action_repeat: int = 1,
    env_wrappers: Sequence[str] = (),
    action_mask: bool = False,
    wrap: Callable[[gymnasium.Env], gymnasium.Env] | None = None,
) -> gymnasium.Env:
    """Makes one environment.

    Args:
      spec: What Gymnasium registered it as. The spec itself, because a worker has not imported what registered it.
      env_kwargs: For its constructor.
      max_episode_steps: Where episodes are cut; 0 for the environment's own limit.
      action_repeat: How often each action is repeated.
      env_wrappers: Names of functions that wrap it, the first one first.
      action_mask: Whether observations are to hold the masks of actions that are in its infos.
      wrap: A last wrapper.

    Raises:
      UsageError: A wrapper is missing, or does not return an environment.
      UnsupportedSpaceError: There are no masks for its actions.
      RenderingError: Pixels are asked for, by `render_mode="rgb_array"`, and there are none.
    """
    if env_kwargs.get("render_mode") == "rgb_array":
        check_rendering(spec)  # Gymnasium only warns, and the first frame is None then.
    limit = {"max_episode_steps": max_episode_steps} if max_episode_steps else {}
    env = families.make(spec, **limit, **env_kwargs)
    if action_repeat > 1:
        env = wrappers.ActionRepeat(env, action_repeat)
    for name in env_wrappers:
        env = _wrapped(env, name)
    if action_mask:
        env = with_action_mask(env)
    return wrap(env) if wrap else env


def make_environments(
    config: Config,
    spec: EnvSpec,
    number: int,
    wrap: Callable[[int, gymnasium.Env], gymnasium.Env] | None = None,
    info_keys: Sequence[str] = (),
    training: bool = False,
    **kwargs: Any,
) -> VectorEnv | InGraphEnv:
    """Makes a batch of environments where the configuration says that they live.

    Where that is in the graph, TensorFlow is started for it.

    Args:
      config: See `agents.config`.
      spec: The environment that it names.
      number: How many.
      wrap: A last wrapper for each, given its index in the batch and the environment; it may go to another process;
        not for environments of EnvPool or in the graph.
      info_keys: Names of numbers in their infos that are wanted in every step.
      training: Whether they are to be learned from, and get `config.train_wrappers`.
      **kwargs: For the environments' constructor, besides `config.env_kwargs`.

    Raises:
      EnvironmentFailure: An environment could not be made.
      UnsupportedSpaceError: There is no network or policy for its spaces.
      UsageError: An environment in the graph does not take the arguments.
    """
    env_kwargs = {**config.env_kwargs, **kwargs}
    if wrap and config.env_backend in ("envpool", "tf"):
        raise ValueError(f"Gymnasium's wrappers don't fit environments with env_backend '{config.env_backend}'.")
    if config.env_backend == "tf":
        return _make_tensor_environments(config, spec, number, env_kwargs)
    names = (*config.env_wrappers, *(config.train_wrappers if training else ()))
    batch_env: VectorEnv
    if config.env_backend == "envpool":
        batch_env = _make_env_pool(config, number, env_kwargs)
    else:
        limits = config.max_episode_steps, config.action_repeat
        make = functools.partial(make_env, spec, env_kwargs, *limits, names, config.action_mask)
        constructors = [functools.partial(make, wrap and functools.partial(wrap, index)) for index in range(number)]
        if config.env_backend == "process":
            batch_env = make_batch_env(constructors, config.num_processes, config.step_timeout, info_keys)
        else:
            batch_env = BatchEnv([make() for make in constructors], blocking=True, info_keys=info_keys)
    try:
        leaf_spaces(batch_env.single_observation_space)
        check_action_space(batch_env.single_action_space)
        if config.action_mask:
            check_action_mask(batch_env.single_observation_space, batch_env.single_action_space)
    except ValueError:
        batch_env.close()
        raise
    return batch_env


def in_graph(environments: VectorEnv | InGraphEnv, info_keys: Sequence[str] = ()) -> InGraphEnv:
    """Environments as the graph needs them; some are that already. `info_keys` are wanted of their infos."""
    from agents.tools.in_graph_batch_env import InGraphBatchEnv

    return InGraphBatchEnv(environments, info_keys) if isinstance(environments, VectorEnv) else environments


def _wrapped(env: gymnasium.Env, name: str) -> gymnasium.Env:
    wrapped = load_function(name, "env_wrappers")(env)
    if not isinstance(wrapped, gymnasium.Env):
        raise UsageError(f"the wrapper '{name}' must return an environment of Gymnasium, got {wrapped!r}")
    return wrapped


def _make_env_pool(config: Config, number: int, env_kwargs: dict[str, Any]) -> VectorEnv:
    from agents.tools.env_pool import make_env_pool

    threads = min(config.num_processes or available_cores(), number)
    return make_env_pool(config.env, number, threads, config.max_episode_steps, env_kwargs)


def _make_tensor_environments(config: Config, spec: EnvSpec, number: int, env_kwargs: dict[str, Any]) -> InGraphEnv:
    start_tensorflow(config.threads)  # It says less than when it is merely imported.
    environments = envs.make(spec.id, number, config.max_episode_steps, config.action_repeat, **env_kwargs)
    check_action_space(environments.action_space)
    if config.action_mask:
        check_action_mask(environments.observation_space, environments.action_space)
    return environments
