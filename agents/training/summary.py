"""A summary of an experiment before it is started: spaces, network, memory."""

from __future__ import annotations

import math

from gymnasium import spaces

from agents.distributions.factory import scaled_dimensions
from agents.graph.algorithm import Algorithm
from agents.policies.policy import Policy
from agents.settings.config import ALGORITHMS, SCALED_POLICIES, Config
from agents.settings.entry_points import load_function
from agents.spaces import leaf_spaces
from agents.training.unfit_settings import warn_of_unfit_settings
from agents.types import Space

# Of a step besides observations, actions and noise: reward, return, length and flags.
_STEP_BYTES = 16


def summarize(
    config: Config, observation_space: Space, action_space: Space, episode_limit: int = 0
) -> list[str]:
    """Returns lines that describe an experiment and the memory that it takes.

    Args:
      config: The experiment.
      observation_space: Of one environment.
      action_space: Of one environment.
      episode_limit: Steps after which episodes are truncated; 0 if there is no time limit.

    Raises:
      UnsupportedSpaceError: There is no network or action distribution for a space.
      UsageError: The network does not exist, or does not fit the observations.
    """
    own_lines = _algorithm_lines(config, observation_space, action_space)
    policy = Policy(observation_space, action_space, config)
    warn_of_unfit_settings(config, observation_space, action_space)
    weights, trained = policy.network.variables(), policy.network.trainable_variables()
    size = sum(math.prod(weight.shape) for weight in weights.values())
    num_bytes = sum(math.prod(weight.shape) * weight.dtype.size for weight in weights.values())
    num_bytes += sum(2 * 4 * math.prod(weight.shape) for weight in trained.values())
    iteration = config.num_envs * config.rollout_length
    num_evaluations = _num_evaluations(config, iteration)
    most_steps = num_evaluations * config.eval_episodes * episode_limit
    width = max(map(len, weights))
    return [
        f"observations: {observation_space}",
        f"actions: {action_space}{_scaling(action_space, config)}",
        f"network: {size:,} weights, {_megabytes(num_bytes)} with the optimizer's",
        *(
            f"  {name:<{width}}  {' x '.join(map(str, weight.shape))}{'' if name in trained else ', not trained'}"
            for name, weight in weights.items()
        ),
        f"rollout: {config.num_envs} environments x {config.rollout_length} steps, "
        f"{_megabytes(iteration * _bytes_per_step(observation_space, action_space, policy))}",
        *own_lines,
        f"training: {math.ceil(config.steps / iteration):,} iterations of {iteration:,} steps, "
        f"{num_evaluations:,} evaluations of {config.eval_episodes} episodes"
        f"{f', at most {most_steps:,} further steps' if most_steps else ''}",
    ]


def _num_evaluations(config: Config, iteration: int) -> int:
    """Iterations that end or cross an interval, and the last one."""
    num_iterations = math.ceil(config.steps / iteration)
    crossed_before_last = (num_iterations - 1) * iteration // config.eval_interval
    return min(num_iterations, crossed_before_last + 1)


def _algorithm_lines(config: Config, *spaces: Space) -> list[str]:
    name = ALGORITHMS.get(config.algorithm, config.algorithm)
    algorithm: object = load_function(name, "algorithm")
    if isinstance(algorithm, type) and issubclass(algorithm, Algorithm):
        return algorithm.describe(config, *spaces)
    return []


def _scaling(space: Space, config: Config) -> str:
    """Whether the policy acts in [-1, 1] instead of the bounds, see the setting `scale_actions`."""
    if config.policy not in SCALED_POLICIES:
        return ""
    boxes = [leaf for leaf in leaf_spaces(space) if isinstance(leaf, spaces.Box)]
    is_scaled = any(scaled_dimensions(box, config.scale_actions).any() for box in boxes)
    return ", scaled from [-1, 1]" if is_scaled else ""


def _bytes_per_step(observation_space: Space, action_space: Space, policy: Policy) -> int:
    """Bytes that a step of one environment takes in a rollout; two observations of each."""
    observ, action = (
        sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaf_spaces(space))
        for space in (observation_space, action_space)
    )
    noise = 4 * policy.action_distribution.noise_size
    return int(2 * (observ + action) + noise + _STEP_BYTES)


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"
