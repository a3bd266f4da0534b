"""Gaussian distributions with a diagonal covariance over a Box, clipped to its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.box import to_box
from agents.distributions.distribution import Distribution
from agents.distributions.parametric_distribution import Parameter, reject_mask
from agents.environments.action_bounds import center_and_scale


class Gaussian:
    """Diagonal Gaussian distributions; samples are float32 [..., A], in units of the action, or of its scale.

    Attributes:
      mean: float32 [..., A].
      log_std: Logarithm of the standard deviation, float32 [..., A] or [A].
    """

    def __init__(self, mean: tf.Tensor, log_std: tf.Tensor):
        """Initializes the distributions.

        Args:
          mean: float32 [..., A].
          log_std: Logarithm of the standard deviation, float32, broadcastable to `mean`.
        """
        self.mean, self.log_std = mean, log_std

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Returns samples, float32 [..., A], from standard normal noise [..., A]."""
        return self.mean + tf.exp(self.log_std) * noise

    def mode(self) -> tf.Tensor:
        """Returns the mean, float32 [..., A]."""
        return self.mean

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Returns the log-density of samples [..., A], summed over A: float32 [...]."""
        standardized = (sample - self.mean) * tf.exp(-self.log_std)  # [..., A]
        return -tf.reduce_sum(
            0.5 * standardized**2 + self.log_std + 0.5 * math.log(2 * math.pi), axis=-1
        )

    def entropy(self) -> tf.Tensor:
        """Returns the entropy in nats, float32 [...]."""
        log_std = tf.broadcast_to(self.log_std, tf.shape(self.mean))  # [..., A]
        return tf.reduce_sum(log_std + 0.5 * math.log(2 * math.pi * math.e), axis=-1)

    def kl(self, other: Gaussian) -> tf.Tensor:
        """Returns KL(self || other) in nats, float32 [...]."""
        log_ratio = self.log_std - other.log_std  # [..., A] or [A]
        distance = (self.mean - other.mean) * tf.exp(-other.log_std)  # [..., A]
        # expm1 keeps the divergence of nearly equal policies from being dominated by rounding
        # errors, unlike exp(2 x) - 1.
        return 0.5 * tf.reduce_sum(
            tf.math.expm1(2 * log_ratio) - 2 * log_ratio + distance**2, axis=-1
        )

    def statistics(self) -> dict[str, tf.Tensor]:
        """Returns the mode and the standard deviation, [..., A] each."""
        std = tf.exp(tf.broadcast_to(self.log_std, tf.shape(self.mean)))  # [..., A]
        return {"mode": self.mean, "std": std}


class ParametricGaussian:
    """Diagonal Gaussian distributions over a Box that network outputs parametrize.

    Actions for the environment are clipped to the bounds of the Box, and scaled to them if `scaled`.
    """

    mask_size = 0

    def __init__(
        self,
        space: spaces.Box,
        initial_log_std: float = 0.0,
        state_dependent_std: bool = False,
        scaled: np.ndarray | None = None,
    ):
        """Initializes the parameters.

        Args:
          space: Box of A floats, of any shape, with or without bounds.
          initial_log_std: Logarithm of the standard deviation before training.
          state_dependent_std: Whether the standard deviation depends on the observation.
          scaled: bool [*space.shape], the dimensions whose samples in [-1, 1] become the actions
            between the bounds, which are finite; by default none.
        """
        self._space, self._scaling = space, None
        if scaled is not None and scaled.any():
            center, scale = center_and_scale(space)
            pair = np.where(scaled, center, 0.0), np.where(scaled, scale, 1.0)
            self._scaling = tuple(part.reshape(-1).astype(space.dtype) for part in pair)  # [A] each
        self.noise_size = int(np.prod(space.shape))
        self.parameters: tuple[Parameter, ...] = (
            Parameter("mean", self.noise_size),
            Parameter("log_std", self.noise_size, initial_log_std, not state_dependent_std),
        )

    def distribution(
        self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None
    ) -> Distribution:
        """Returns the distributions with the given parameters; there are no masks.

        Args:
          parameters: The mean [..., A] and the log standard deviation, [..., A] or [A].
          mask: None.
        """
        reject_mask(mask, "Gaussian")
        mean, log_std = parameters
        return Gaussian(mean, log_std)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Returns standard normal noise, float32 [*batch_shape, A]."""
        return generator.normal([*batch_shape, self.noise_size])

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Scales and clips samples [..., A]: [..., *shape] of the space's dtype."""
        if self._scaling:
            center, scale = self._scaling
            sample = center + scale * tf.cast(sample, self._space.dtype)  # [..., A]
        return to_box(self._space, sample)
