"""Inspects an environment: what random steps return, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import gymnasium

from agents.environments.data_check import DataError
from agents.environments.inspection.finding import Finding
from agents.environments.inspection.learnability import (
    check_actions,
    check_episodes,
    check_masks,
    check_observations,
    check_rewards,
)
from agents.environments.inspection.random_steps import RandomSteps, take_random_steps
from agents.environments.inspection.rules import check_interface, check_seeds
from agents.spaces import leaf_spaces

if TYPE_CHECKING:
    from agents.types import Env, EnvConstructor, Options, Space


class Inspection(NamedTuple):
    """What an inspection has seen.

    Attributes:
      observation_space: The environment's.
      action_space: The environment's.
      time_limit: Steps after which Gymnasium cuts episodes; None for no limit.
      steps: Random steps; None where the environment returned something that it must not.
      findings: What to change.
    """

    observation_space: Space
    action_space: Space
    time_limit: int | None
    steps: RandomSteps | None
    findings: list[Finding]


def inspect_env(
    make: EnvConstructor,
    num_steps: int = 1000,
    seed: int = 0,
    reset_options: Options | None = None,
    action_mask: bool = False,
) -> Inspection:
    """Inspects the environments that a function makes.

    Args:
      make: Makes an environment; called several times.
      num_steps: Random steps to take.
      seed: Seed of the environment and the actions.
      reset_options: Options that `make` gives to every reset, for Gymnasium's checker.
      action_mask: Whether the policy takes the environment's action masks.

    Raises:
      UnsupportedSpaceError: A space is not made of arrays.
    """
    env = make()
    try:
        observation_space, action_space = env.observation_space, env.action_space
        leaf_spaces(observation_space), leaf_spaces(action_space)
        time_limit = find_time_limit(env)
        findings = check_interface(env.unwrapped, reset_options or {})
        findings += check_actions(action_space)
        steps = None
        try:
            steps = take_random_steps(env, num_steps, seed)
            findings += check_seeds(env, make, seed)
        except DataError as error:
            advice = "change what it returns: training stops at such a step"
            findings.append(Finding(True, f"the environment {error}", advice))
    finally:
        env.close()
    if steps:
        findings += check_observations(observation_space, steps)
        findings += check_rewards(steps)
        findings += check_episodes(time_limit, steps)
        findings += [] if action_mask else check_masks(steps)
    findings = sorted(findings, key=lambda finding: not finding.is_error)
    return Inspection(observation_space, action_space, time_limit, steps, findings)


def find_time_limit(env: Env) -> int | None:
    """Returns after how many steps Gymnasium's wrapper cuts episodes; None if there is none."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return int(env._max_episode_steps)
        env = env.env
    return None
