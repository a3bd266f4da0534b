"""Warnings about the length of episodes: cut by checkpoints, or without a limit."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from agents.environments.families import SELF_LIMITED
from agents.settings.config import Config

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

# Steps after which an evaluation gives up on an episode.
LONGEST_EPISODE = 100_000


def episode_limit(config: Config, spec: EnvSpec) -> int:
    """Returns the steps after which episodes are truncated; 0 if there is no time limit."""
    return (config.max_episode_steps or spec.max_episode_steps or 0) // config.action_repeat


def warn_of_endless_episodes(config: Config, spec: EnvSpec) -> None:
    """Warns where no time limit ends episodes; one that lasts makes evaluations long."""
    if config.max_episode_steps or spec.max_episode_steps:
        return
    if not str(spec.entry_point).startswith(SELF_LIMITED):
        warnings.warn(
            f"environment '{spec.id}' is registered without a time limit: set --max-episode-steps, also if it "
            f"ends its episodes itself; evaluations of endless ones take {LONGEST_EPISODE:,} steps",
            stacklevel=3,
        )


def warn_of_cut_episodes(config: Config, spec: EnvSpec) -> None:
    """Warns where checkpoints leave no time for a whole episode, whose end is never learned."""
    limit = episode_limit(config, spec)
    # Checkpoints are saved between rollouts.
    steps = max(config.checkpoint_interval // config.num_envs, config.rollout_length)
    if steps < limit and config.checkpoint_interval < config.steps:
        warnings.warn(
            f"checkpoint_interval {config.checkpoint_interval} truncates episodes after {steps} of at "
            f"most {limit} steps, so training never sees the later ones; expected "
            f"{limit * config.num_envs} or more, better ten times that",
            stacklevel=3,
        )
