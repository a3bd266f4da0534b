"""Beta distributions over a bounded Box.

Chou, Maturana and Scherer, "Improving Stochastic Policy Gradients in Continuous Control with Deep
Reinforcement Learning using the Beta Distribution" (ICML 2017).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.box import reshape_last, to_box
from agents.distributions.parametric_distribution import Parameter, reject_mask

# The acceptance rate is at least 0.951, so all proposals for one of the two gamma variates of a
# sample are rejected with a probability of at most 6e-7.
_NUM_PROPOSALS = 5
# For each of the two gamma variates: a normal number and a log-uniform one per proposal.
_NOISE_PER_DIMENSION = 2 * 2 * _NUM_PROPOSALS


class Beta:
    """Independent unimodal Beta distributions; samples are float32 [..., A] in (0, 1).

    Attributes:
      alpha: First concentration, at least 1, float32 [..., A].
      beta: Second concentration, at least 1, float32 [..., A].
    """

    def __init__(self, alpha: tf.Tensor, beta: tf.Tensor):
        """Initializes the distributions.

        Args:
          alpha: First concentration before the transformation 1 + softplus, float32 [..., A].
          beta: Second concentration before the transformation, float32 [..., A].
        """
        self._excess = tf.nn.softplus(alpha), tf.nn.softplus(beta)
        self.alpha, self.beta = (1 + excess for excess in self._excess)  # [..., A]
        # The exponents of the density. Densities are differences of numbers that grow with the
        # concentrations: in single precision, their error is 0.2 at concentrations of 1e5.
        self._powers = [tf.cast(excess, tf.float64) for excess in self._excess]  # [..., A]

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Returns samples, float32 [..., A], from `ParametricBeta.noise` [..., K]."""
        noise = reshape_last(noise, [2, 2, _NUM_PROPOSALS, self.alpha.shape[-1]])
        normal, log_uniform = tf.unstack(noise, axis=-4)  # [..., 2, proposals, A]
        first = _gamma_variates(self.alpha, normal[..., 0, :, :], log_uniform[..., 0, :, :])
        second = _gamma_variates(self.beta, normal[..., 1, :, :], log_uniform[..., 1, :, :])
        return _clip_to_open_interval(first / (first + second))

    def mode(self) -> tf.Tensor:
        """Returns the mode, float32 [..., A]."""
        alpha, beta = (tf.maximum(excess, 1e-30) for excess in self._excess)
        return _clip_to_open_interval(alpha / (alpha + beta))

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Returns the log-density of samples [..., A], summed over A: float32 [...]."""
        sample = tf.cast(sample, tf.float64)
        log_power = self._log_power(tf.math.log(sample), tf.math.log1p(-sample))  # [..., A]
        return _sum(log_power - self._log_normalizer())

    def entropy(self) -> tf.Tensor:
        """Returns the entropy in nats, float32 [...]."""
        log_power = self._log_power(*self._expected_logs())  # [..., A]
        return _sum(self._log_normalizer() - log_power)

    def kl(self, other: Beta) -> tf.Tensor:
        """Returns KL(self || other) in nats, float32 [...]."""
        logs = self._expected_logs()
        log_ratio = self._log_power(*logs) - other._log_power(*logs)  # [..., A]
        return _sum(log_ratio + other._log_normalizer() - self._log_normalizer())

    def statistics(self) -> dict[str, tf.Tensor]:
        """Returns the mode and the standard deviation, [..., A] each."""
        total = self.alpha + self.beta
        mode = self.mode()
        std = tf.sqrt(self.alpha / total * (self.beta / total) / (total + 1))  # [..., A]
        return {"mode": mode, "std": std}

    def _log_power(self, log: tf.Tensor, log1m: tf.Tensor) -> tf.Tensor:
        """Returns the log-density before normalization for log(x) and log(1 - x), [..., A]."""
        alpha, beta = self._powers
        return alpha * log + beta * log1m

    def _log_normalizer(self) -> tf.Tensor:
        """Returns the logarithm of the Beta function, [..., A]."""
        alpha, beta = self._powers
        log_gammas = tf.math.lgamma(1 + alpha) + tf.math.lgamma(1 + beta)
        return log_gammas - tf.math.lgamma(2 + alpha + beta)

    def _expected_logs(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the expectations of log(x) and log(1 - x), [..., A] each."""
        alpha, beta = self._powers
        digamma_total = tf.math.digamma(2 + alpha + beta)
        mean_log = tf.math.digamma(1 + alpha) - digamma_total
        mean_log1m = tf.math.digamma(1 + beta) - digamma_total
        return mean_log, mean_log1m


class ParametricBeta:
    """Beta distributions over a bounded Box that network outputs parametrize.

    Samples of 0 and 1 correspond to the lower and upper bounds.
    """

    mask_size = 0

    def __init__(self, space: spaces.Box):
        """Initializes the parameters for a Box of A floats with finite bounds, of any shape."""
        self._space = space
        low, high = (np.asarray(bound, np.float64).reshape(-1) for bound in (space.low, space.high))
        self._low, self._high = low, high  # [A]
        self.noise_size = _NOISE_PER_DIMENSION * len(low)
        self.parameters: tuple[Parameter, ...] = (
            Parameter("alpha", len(low)),
            Parameter("beta", len(low)),
        )

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> Beta:
        """Returns the distributions with the given parameters; there are no masks.

        Args:
          parameters: The concentrations before the transformation 1 + softplus, [..., A] each.
          mask: None.
        """
        reject_mask(mask, "Beta")
        alpha, beta = parameters
        return Beta(alpha, beta)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Returns standard normal noise, then log-uniform noise, float32 [*batch_shape, K]."""
        shape = [*batch_shape, self.noise_size // 2]
        normal = generator.normal(shape)
        log_uniform = tf.math.log(generator.uniform(shape, minval=1e-20))
        return tf.concat([normal, log_uniform], axis=-1)

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Scales samples [..., A] to the bounds: [..., *shape] of the space's dtype."""
        sample = tf.cast(sample, self._space.dtype)
        low, high = (tf.constant(values, self._space.dtype) for values in (self._low, self._high))
        # Not low + (high - low) * sample, since high - low can overflow.
        return to_box(self._space, low * (1 - sample) + high * sample)


def _gamma_variates(
    concentration: tf.Tensor, normal: tf.Tensor, log_uniform: tf.Tensor
) -> tf.Tensor:
    """Samples Gamma distributions by rejection sampling with a fixed number of proposals.

    Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables" (2000, doi
    10.1145/358407.358414).

    Args:
      concentration: At least 1, [..., A].
      normal: Standard normal noise, [..., proposals, A].
      log_uniform: Logarithms of uniform noise in (0, 1), [..., proposals, A].

    Returns:
      Gamma variates of scale 1, [..., A].
    """
    center = (concentration - 1 / 3)[..., None, :]  # [..., 1, A]
    cube = (1 + normal / (3 * tf.sqrt(center))) ** 3  # [..., proposals, A]
    log_ratio = 0.5 * normal**2 + center * (1 - cube + tf.math.log(tf.maximum(cube, 1e-30)))
    accepted = (cube > 0) & (log_uniform < log_ratio)  # [..., proposals, A]
    chosen = tf.ones_like(concentration)  # [..., A], kept if all proposals are rejected.
    for proposal in range(_NUM_PROPOSALS):
        chosen = tf.where(accepted[..., proposal, :], cube[..., proposal, :], chosen)
    return (concentration - 1 / 3) * chosen


def _sum(terms: tf.Tensor) -> tf.Tensor:
    """Returns the sum over the dimensions of float64 [..., A], float32 [...]."""
    return tf.cast(tf.reduce_sum(terms, axis=-1), tf.float32)


def _clip_to_open_interval(sample: tf.Tensor) -> tf.Tensor:
    """Clips samples to (0, 1); rounding can give the bounds, where densities are 0."""
    epsilon = float(np.finfo(np.float32).eps)
    return tf.clip_by_value(sample, epsilon, 1 - epsilon)
