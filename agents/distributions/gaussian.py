"""Gaussian distributions with a diagonal covariance over a Box, clipped to its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.box import to_box
from agents.distributions.parametric_distribution import Parameter, reject_mask


class Gaussian:
    """Diagonal Gaussian distributions; samples are float32 [..., A], in units of the action.

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

    Actions are clipped to the bounds of the Box for the environment.
    """

    mask_size = 0

    def __init__(
        self, space: spaces.Box, initial_log_std: float = 0.0, state_dependent_std: bool = False
    ):
        """Initializes the parameters.

        Args:
          space: Box of A floats, of any shape, with or without bounds.
          initial_log_std: Logarithm of the standard deviation before training.
          state_dependent_std: Whether the standard deviation depends on the observation.
        """
        self._space = space
        self.noise_size = int(np.prod(space.shape))
        self.parameters = gaussian_parameters(self.noise_size, initial_log_std, state_dependent_std)

    def distribution(
        self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None
    ) -> Gaussian:
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
        """Clips samples [..., A] to the bounds: [..., *shape] of the space's dtype."""
        return to_box(self._space, sample)


def gaussian_parameters(
    size: int, initial_log_std: float = 0.0, state_dependent_std: bool = False
) -> tuple[Parameter, ...]:
    """Returns the parameters of a Gaussian: mean and log standard deviation.

    Args:
      size: Dimensions of the action, A.
      initial_log_std: Logarithm of the standard deviation before training.
      state_dependent_std: Whether the standard deviation depends on the observation.
    """
    return (
        Parameter("mean", size),
        Parameter("log_std", size, initial_log_std, not state_dependent_std),
    )
