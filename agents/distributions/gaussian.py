"""Independent normal distributions, for actions without bounds or clipped to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.action_family import Parameter, refuse_mask
from agents.distributions.box import to_box


class Gaussian:
    """Independent normal distributions; samples are float32 [..., A], in units of the action."""

    def __init__(self, mean: tf.Tensor, log_std: tf.Tensor):
        """Takes `mean` [..., A] and the logarithm of the standard deviation, of a shape that fits it."""
        self.mean, self.log_std = mean, log_std

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Samples [..., A] from standard normal numbers [..., A]."""
        return self.mean + tf.exp(self.log_std) * noise

    def mode(self) -> tf.Tensor:
        """The mean, [..., A]."""
        return self.mean

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Log-density of `sample` [..., A], summed over the dimensions of the action: float32 [...]."""
        standard = (sample - self.mean) * tf.exp(-self.log_std)
        return -tf.reduce_sum(0.5 * standard**2 + self.log_std + 0.5 * math.log(2 * math.pi), axis=-1)

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""
        log_std = tf.broadcast_to(self.log_std, tf.shape(self.mean))
        return tf.reduce_sum(log_std + 0.5 * math.log(2 * math.pi * math.e), axis=-1)

    def kl(self, other: Gaussian) -> tf.Tensor:
        """KL(self || other) in nats, float32 [...]."""
        log_ratio = self.log_std - other.log_std
        distance = (self.mean - other.mean) * tf.exp(-other.log_std)
        # With exp(2 x) - 1 instead, the divergence of nearly equal policies would be rounding errors.
        return 0.5 * tf.reduce_sum(tf.math.expm1(2 * log_ratio) - 2 * log_ratio + distance**2, axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mode and standard deviation."""
        return {"mode": self.mean, "std": tf.exp(tf.broadcast_to(self.log_std, tf.shape(self.mean)))}


class GaussianFamily:
    """Normal distributions over the numbers of a Box, clipped to its bounds for the environment."""

    mask_size = 0

    def __init__(self, space: spaces.Box, initial_log_std: float = 0.0, state_dependent_std: bool = False):
        """Takes a Box of A floats, see `gaussian_parameters` for the rest."""
        self._space = space
        self.noise_size = int(np.prod(space.shape))
        self.parameters = gaussian_parameters(self.noise_size, initial_log_std, state_dependent_std)

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> Gaussian:
        """From the mean [..., A] and the logarithm of the deviation, [..., A] or [A]; there is no mask."""
        refuse_mask(mask, "Gaussian")
        mean, log_std = parameters
        return Gaussian(mean, log_std)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Standard normal numbers, float32 [*batch_shape, A]."""
        return generator.normal([*batch_shape, self.noise_size])

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Samples [..., A] clipped to the bounds: [..., *shape] of the space's type."""
        return to_box(self._space, sample)


def gaussian_parameters(
    size: int, initial_log_std: float = 0.0, state_dependent_std: bool = False
) -> tuple[Parameter, ...]:
    """Mean and logarithm of the standard deviation.

    Args:
      size: Dimensions of the action, A.
      initial_log_std: Logarithm of the deviation before training.
      state_dependent_std: Whether the deviation depends on the observation.
    """
    return Parameter("mean", size), Parameter("log_std", size, initial_log_std, not state_dependent_std)
