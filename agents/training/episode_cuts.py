"""A warning about checkpoints that cut every episode."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from agents.settings.config import Config

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec


def warn_of_cut_episodes(config: Config, spec: EnvSpec) -> None:
    """Warns where checkpoints leave no time for a whole episode, whose end is never learned."""
    limit = (config.max_episode_steps or spec.max_episode_steps or 0) // config.action_repeat
    steps = config.checkpoint_interval // config.num_envs
    if steps < limit and config.checkpoint_interval < config.steps:
        warnings.warn(
            f"checkpoint_interval {config.checkpoint_interval} cuts episodes after {steps} steps "
            f"of each of the {config.num_envs} environments, and they may last {limit}: nothing "
            f"is learned about the rest; expected at least {limit * config.num_envs}, preferably "
            "several times that",
            stacklevel=3,
        )
