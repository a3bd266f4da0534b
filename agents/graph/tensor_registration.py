"""Registry of the environments in TensorFlow, by id. It must not import TensorFlow."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from gymnasium.envs.registration import EnvSpec, load_env_creator

from agents.errors import UsageError
from agents.suggestion import did_you_mean

if TYPE_CHECKING:
    from agents.graph.in_graph_tensor_env import InGraphTensorEnv
    from agents.graph.tensor_env import TensorEnv

_specs: dict[str, EnvSpec] = {}


def register(
    id: str, entry_point: str | Callable[..., TensorEnv], max_episode_steps: int | None = None
) -> None:
    """Registers an environment in TensorFlow, as `gymnasium.register` does for Gymnasium's.

    Args:
      id: Environment id, such as MyEnv-v0.
      entry_point: A subclass of `TensorEnv`, or 'module:Class', which is imported when an
        environment is made.
      max_episode_steps: Time limit in steps, after which episodes are truncated; by default none.

    Raises:
      gymnasium.error.Error: The id is malformed.
    """
    # Gymnasium declares entry points to return its own environments, but only stores them here.
    _specs[id] = EnvSpec(
        id,
        entry_point,  # type: ignore[arg-type]
        max_episode_steps=max_episode_steps,
    )


def is_registered(id: str) -> bool:
    """Whether there is such an environment in TensorFlow."""
    return id in _specs


def find_spec(id: str) -> EnvSpec:
    """Returns the specification of a registered environment.

    Raises:
      UsageError: The id is not registered.
    """
    if id in _specs:
        return _specs[id]
    raise UsageError(
        f"unknown environment '{id}' for env_backend tf{did_you_mean(id, _specs)}\n"
        f"registered are {', '.join(sorted(_specs))}\n"
        "implement it with agents.tensor_envs.TensorEnv and agents.tensor_envs.register, or choose another env_backend"
    )


def make(
    id: str, num_envs: int, max_episode_steps: int = 0, action_repeat: int = 1, **kwargs: Any
) -> InGraphTensorEnv:
    """Creates a batch of environments.

    Args:
      id: Id of a registered environment.
      num_envs: Number of environments, B.
      max_episode_steps: Time limit in steps; 0 for that of the registration.
      action_repeat: Environment steps per action.
      **kwargs: Arguments of the environment's constructor.

    Raises:
      UsageError: The id is not registered, or the constructor does not accept the arguments.
    """
    from agents.graph.in_graph_tensor_env import InGraphTensorEnv

    spec = find_spec(id)
    entry_point = spec.entry_point
    # As in `register`: Gymnasium declares another return type.
    make_env = cast(
        "Callable[..., TensorEnv]",
        load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point,
    )
    try:
        inspect.signature(make_env).bind(**kwargs)
    except TypeError as error:
        raise UsageError(f"env_kwargs of '{id}' with env_backend tf: {error}") from None
    time_limit = max_episode_steps or spec.max_episode_steps or 0
    return InGraphTensorEnv(make_env(**kwargs), num_envs, time_limit, action_repeat)


register("Acrobot-v1", "agents.graph.acrobot:Acrobot", max_episode_steps=500)
register("CartPole-v1", "agents.graph.cartpole:CartPole", max_episode_steps=500)
register(
    "MountainCarContinuous-v0",
    "agents.graph.mountain_car_continuous:MountainCarContinuous",
    max_episode_steps=999,
)
register("Pendulum-v1", "agents.graph.pendulum:Pendulum", max_episode_steps=200)
