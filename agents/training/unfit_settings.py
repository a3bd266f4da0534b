"""Warnings about settings that do not fit the spaces of the environment, or are rounded."""

from __future__ import annotations

import math
import warnings

import numpy as np
from gymnasium import spaces

from agents.distributions.factory import scaled_dimensions
from agents.policies.inputs import Inputs
from agents.settings.config import ALGORITHM_SETTINGS, SCALED_POLICIES, Config, num_updates
from agents.spaces import leaf_spaces
from agents.types import Space

# Settings that only actions of a Box have.
_OF_BOXES = ("scale_actions", "state_dependent_std", "initial_log_std", "divide_initial_std")

# Sides in pixels from which an image is worth convolutions; smaller ones are often grids of a game.
_LEAST_SIDE = 36


def warn_of_unfit_settings(config: Config, observation_space: Space, action_space: Space) -> None:
    """Warns about settings that are rounded or without effect, and images that lose their shape.

    Algorithms of users may read settings as they like: only `steps` is the same for all.
    """
    iteration = config.num_envs * config.rollout_length
    steps = math.ceil(config.steps / iteration) * iteration
    if steps > 1.1 * config.steps:
        warnings.warn(
            f"steps: {config.steps:,} become {steps:,}, whole rollouts of {iteration:,} "
            f"({config.num_envs} num_envs x {config.rollout_length} rollout_length)",
            stacklevel=2,
        )
    if config.algorithm not in ALGORITHM_SETTINGS:
        return
    gradient_steps = num_updates(config) / iteration
    if config.algorithm != "ppo" and abs(gradient_steps / config.gradient_steps - 1) > 0.1:
        warnings.warn(
            f"gradient_steps: {config.gradient_steps:g} becomes {gradient_steps:g}, a whole number "
            f"per rollout of {iteration:,} steps; a larger rollout_length may be closer",
            stacklevel=2,
        )
    boxes = [leaf for leaf in leaf_spaces(action_space) if isinstance(leaf, spaces.Box)]
    fields = Config.model_fields
    chosen = [
        name
        for name in _OF_BOXES
        if getattr(config, name) not in (fields[name].default, "never")  # Which holds anyway.
    ]
    if chosen and not boxes:
        warnings.warn(
            f"{', '.join(chosen)}: no effect on actions of {action_space}, only on those of a Box",
            stacklevel=2,
        )
    if config.scale_actions == "always" and config.policy in SCALED_POLICIES:
        if not all(np.all(scaled_dimensions(box, "always")) for box in boxes):
            warnings.warn(
                "scale_actions: always scales to finite bounds, which some dimensions of "
                f"{action_space} lack",
                stacklevel=2,
            )
    mask, keys = config.action_mask, config.critic_keys
    inputs = Inputs(observation_space, keep_images=True, action_mask=mask, critic_keys=keys)
    images = [
        shape
        for shape in inputs.value_shapes.values()
        if len(shape) == 3 and min(shape[:2]) >= _LEAST_SIDE
    ]
    if images and config.network == "feed_forward":
        warnings.warn(
            f"network: feed_forward flattens images {list(images[0])}; --network=nature and "
            "--network=impala have convolutions",
            stacklevel=2,
        )
