"""Beta distributions, for actions within bounds.

Chou, Maturana and Scherer, "Improving Stochastic Policy Gradients in Continuous Control with Deep Reinforcement
Learning using the Beta Distribution" (ICML 2017).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.action_family import Parameter, refuse_mask
from agents.distributions.box import reshape_last, to_box

# At least 0.951 of the tries succeed, so that all fail for at most 6e-7 of the samples' two gamma variates.
_TRIES = 5
_NUMBERS_EACH = 2 * 2 * _TRIES  # Two gamma variates, a normal number and a logarithm of a uniform one for each try.


class Beta:
    """Independent Beta distributions with a single peak; samples are float32 [..., A] in (0, 1)."""

    def __init__(self, alpha: tf.Tensor, beta: tf.Tensor):
        """Takes the two concentrations less one, on the scale before softplus: float32 [..., A] each."""
        self._excess_alpha, self._excess_beta = tf.nn.softplus(alpha), tf.nn.softplus(beta)
        self.alpha, self.beta = 1 + self._excess_alpha, 1 + self._excess_beta  # [..., A]

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Samples [..., A] from noise [..., K], of which the first half is normal; see `BetaFamily.noise`."""
        noise = reshape_last(noise, [2, 2, _TRIES, self.alpha.shape[-1]])
        normal, log_uniform = tf.unstack(noise, axis=-4)  # [..., 2, tries, A]
        first = _gamma(self.alpha, normal[..., 0, :, :], log_uniform[..., 0, :, :])
        second = _gamma(self.beta, normal[..., 1, :, :], log_uniform[..., 1, :, :])
        return _within(first / (first + second))

    def mode(self) -> tf.Tensor:
        """The most likely values, [..., A]."""
        alpha, beta = (tf.maximum(excess, 1e-30) for excess in (self._excess_alpha, self._excess_beta))
        return _within(alpha / (alpha + beta))

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Log-density of `sample` [..., A], summed over the dimensions of the action: float32 [...]."""
        powers = self._excess_alpha * tf.math.log(sample) + self._excess_beta * tf.math.log1p(-sample)
        return tf.reduce_sum(powers - self._log_normalizer(), axis=-1)

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""
        mean_log, mean_log_rest = self._mean_logs()
        powers = self._excess_alpha * mean_log + self._excess_beta * mean_log_rest
        return tf.reduce_sum(self._log_normalizer() - powers, axis=-1)

    def kl(self, other: Beta) -> tf.Tensor:
        """KL(self || other) in nats, float32 [...]."""
        mean_log, mean_log_rest = self._mean_logs()
        powers = (self.alpha - other.alpha) * mean_log + (self.beta - other.beta) * mean_log_rest
        return tf.reduce_sum(powers + other._log_normalizer() - self._log_normalizer(), axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mode and standard deviation."""
        total = self.alpha + self.beta
        return {"mode": self.mode(), "std": tf.sqrt(self.alpha / total * (self.beta / total) / (total + 1))}

    def _log_normalizer(self) -> tf.Tensor:
        """Logarithm of the Beta function, [..., A]."""
        return tf.math.lgamma(self.alpha) + tf.math.lgamma(self.beta) - tf.math.lgamma(self.alpha + self.beta)

    def _mean_logs(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Expectations of log(x) and log(1 - x), [..., A] each."""
        of_total = tf.math.digamma(self.alpha + self.beta)
        return tf.math.digamma(self.alpha) - of_total, tf.math.digamma(self.beta) - of_total


class BetaFamily:
    """Beta distributions over the numbers of a bounded Box; 0 stands for its lower bounds, 1 for its upper ones."""

    mask_size = 0

    def __init__(self, space: spaces.Box):
        """Takes a Box of A floats within finite bounds."""
        self._space = space
        low, high = (np.asarray(bound, np.float64).reshape(-1) for bound in (space.low, space.high))
        self._low, self._high = low, high  # [A]
        self.noise_size = _NUMBERS_EACH * len(low)
        self.parameters: tuple[Parameter, ...] = (Parameter("alpha", len(low)), Parameter("beta", len(low)))

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> Beta:
        """From two tensors [..., A], of which 1 + softplus makes the concentrations; there is no mask."""
        refuse_mask(mask, "Beta")
        alpha, beta = parameters
        return Beta(alpha, beta)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Standard normal numbers, then as many logarithms of uniform ones, float32 [*batch_shape, K]."""
        shape = [*batch_shape, self.noise_size // 2]
        return tf.concat([generator.normal(shape), tf.math.log(generator.uniform(shape, minval=1e-20))], axis=-1)

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Samples [..., A], scaled to the bounds: [..., *shape] of the space's type."""
        sample = tf.cast(sample, self._space.dtype)
        low, high = (tf.constant(values, self._space.dtype) for values in (self._low, self._high))
        return to_box(self._space, low * (1 - sample) + high * sample)  # high - low might be infinite.


def _gamma(shape: tf.Tensor, normal: tf.Tensor, log_uniform: tf.Tensor) -> tf.Tensor:
    """Gamma variates by rejection, with a fixed number of tries (Marsaglia and Tsang, 2000, doi 10.1145/358407.358414).

    Args:
      shape: At least 1, [..., A].
      normal: Standard normal numbers, [..., tries, A].
      log_uniform: Logarithms of numbers that are uniform in (0, 1), [..., tries, A].

    Returns:
      Gamma variates of scale one, [..., A].
    """
    center = (shape - 1 / 3)[..., None, :]  # [..., 1, A]
    cube = (1 + normal / (3 * tf.sqrt(center))) ** 3
    log_ratio = 0.5 * normal**2 + center * (1 - cube + tf.math.log(tf.maximum(cube, 1e-30)))
    accepted = (cube > 0) & (log_uniform < log_ratio)
    chosen = tf.ones_like(shape)  # Where all tries failed.
    for attempt in range(_TRIES):
        chosen = tf.where(accepted[..., attempt, :], cube[..., attempt, :], chosen)
    return (shape - 1 / 3) * chosen


def _within(sample: tf.Tensor) -> tf.Tensor:
    """Numbers in (0, 1), where rounding may have led to the bounds themselves, at which densities are 0."""
    epsilon = float(np.finfo(np.float32).eps)
    return tf.clip_by_value(sample, epsilon, 1 - epsilon)
