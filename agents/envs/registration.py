"""Which environments there are in TensorFlow, by id. This must not import TensorFlow."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import EnvSpec, load_env_creator

from agents.tools.errors import UsageError
from agents.validation import did_you_mean

if TYPE_CHECKING:
    from agents.envs.in_graph_tensor_env import InGraphTensorEnv
    from agents.envs.tensor_env import TensorEnv

_specs: dict[str, EnvSpec] = {}


def register(id: str, entry_point: str | Callable[..., TensorEnv], max_episode_steps: int | None = None) -> None:
    """Makes an environment known, as `gymnasium.register` does for those of Gymnasium.

    Args:
      id: Such as MyEnv-v0.
      entry_point: A subclass of `TensorEnv`, or 'module:Class' for one that is imported when it is needed.
      max_episode_steps: After how many steps episodes are cut; by default never.

    Raises:
      gymnasium.error.Error: The id is not well formed.
    """
    # Gymnasium types the entry point as a maker of its own environments; it is only kept here.
    _specs[id] = EnvSpec(id, entry_point, max_episode_steps=max_episode_steps)  # type: ignore[arg-type]


def find_spec(id: str) -> EnvSpec:
    """The specification of an environment. Raises UsageError for one that is not registered."""
    if id in _specs:
        return _specs[id]
    raise UsageError(
        f"unknown environment '{id}' for env_backend tf{did_you_mean(id, _specs)}\n"
        f"there are {', '.join(sorted(_specs))}\n"
        "write one with agents.envs.TensorEnv and agents.envs.register, or choose another env_backend"
    )


def make(id: str, num_envs: int, max_episode_steps: int = 0, action_repeat: int = 1, **kwargs: Any) -> InGraphTensorEnv:
    """Makes a batch of environments.

    Args:
      id: A registered one.
      num_envs: How many, B.
      max_episode_steps: Where episodes are cut; 0 for where it was registered.
      action_repeat: How often each action is repeated.
      **kwargs: For the environment's constructor.

    Raises:
      UsageError: It is not registered, or its constructor does not take the arguments.
    """
    from agents.envs.in_graph_tensor_env import InGraphTensorEnv

    spec = find_spec(id)
    creator: Any = spec.entry_point
    creator = load_env_creator(creator) if isinstance(creator, str) else creator
    try:
        inspect.signature(creator).bind(**kwargs)
    except TypeError as error:
        raise UsageError(f"env_kwargs of '{id}' with env_backend tf: {error}") from None
    limit = max_episode_steps or spec.max_episode_steps or 0
    return InGraphTensorEnv(creator(**kwargs), num_envs, limit, action_repeat)


register("Acrobot-v1", "agents.envs.acrobot:Acrobot", max_episode_steps=500)
register("CartPole-v1", "agents.envs.cartpole:CartPole", max_episode_steps=500)
register("MountainCarContinuous-v0", "agents.envs.mountain_car_continuous:MountainCarContinuous", max_episode_steps=999)
register("Pendulum-v1", "agents.envs.pendulum:Pendulum", max_episode_steps=200)
