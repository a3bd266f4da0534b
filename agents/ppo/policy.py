"""What acting needs, and nothing of what learning needs besides."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces

from agents.config import Config
from agents.networks.features import feature_count, features
from agents.networks.feed_forward import FeedForward
from agents.parts.normalize import ObservNormalizer
from agents.runs.seeds import Seeds


class Policy:
    """Chooses actions for any number of environments. Its variables do not depend on how many it learned from.

    Attributes:
      network: Policy and value function of normalised features.
      normalize_observ: Normalises features; acting leaves its statistics as they are.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        config: Config,
        generator: tf.random.Generator | None = None,
    ):
        """Makes networks with initial weights, and a normaliser without data.

        Args:
          observation_space: Of one environment.
          action_space: Of one environment.
          config: See `agents.config`.
          generator: Draws actions; by default one that is seeded by the configuration.

        Raises:
          UnsupportedSpaceError: A space that there is no network or policy for.
        """
        seeds = Seeds(config.seed)
        size = feature_count(observation_space)
        self._observation_space = observation_space
        self._generator = generator or tf.random.Generator.from_seed(seeds.one("algorithm"))
        self.network = FeedForward(
            size, action_space, config.layers, config.activation, config.initial_log_std, seeds.one("weights")
        )
        self.normalize_observ = ObservNormalizer(size, config.observ_clip, config.normalize_observ)

    def act(self, observ: Any, deterministic: bool, noise: tf.Tensor | None = None) -> tuple[tf.Tensor, Any]:
        """Chooses actions.

        Args:
          observ: Structure of tensors [N, ...].
          deterministic: Whether to take the most likely actions.
          noise: What `noise([N])` drew; by default it is drawn here.

        Returns:
          The policy's actions [N, A] or [N], and what the environments get for them.
        """
        policy = self.network.policy(self.normalize_observ(self.features(observ)))
        if deterministic:
            sample = policy.mode()
        else:
            sample = policy.sample(self.noise(tf.nest.flatten(observ)[0].shape[:1]) if noise is None else noise)
        return sample, self.network.to_environment(sample)

    def noise(self, batch_shape: list[int]) -> tf.Tensor:
        """Draws what is random about a batch of actions: [*batch_shape, A]."""
        return self.network.noise(self._generator, batch_shape)

    def features(self, observ: Any) -> tf.Tensor:
        """Observations, a structure of tensors [..., leaf's shape], as vectors: float32 [..., O], not normalised."""
        return features(self._observation_space, observ)

    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it, by name."""
        groups = {"network": self.network.variables(), "normalize_observ": self.normalize_observ.variables()}
        return {f"{group}/{name}": variable for group, named in groups.items() for name, variable in named.items()}
