"""Gaussian distributions over a bounded Box, squashed to its bounds by tanh.

Haarnoja et al., "Soft Actor-Critic" (2018, arXiv 1801.01290), appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.gaussian import Gaussian, ParametricGaussian
from agents.distributions.parametric_distribution import reject_mask
from agents.environments.action_bounds import center_and_scale

# Approximation of the logistic distribution by a mixture of eight zero-mean Gaussians: weights and
# inverse standard deviations. The error of the cumulative distribution function is below 3e-9
# (Monahan and Stefanski, "Normal scale mixture approximations to F*(z) and computation of the
# logistic-normal integral", 1992).
_MIXTURE_WEIGHTS = np.array(
    [
        0.003246343272134,
        0.051517477033972,
        0.195077912673858,
        0.315569823632818,
        0.274149576158423,
        0.131076880695470,
        0.027912418727972,
        0.001449567805354,
    ]
)
_MIXTURE_INVERSE_STDS = np.array(
    [
        1.365340806296348,
        1.059523971016916,
        0.830791313765644,
        0.650732166639391,
        0.508135425366489,
        0.396313345166341,
        0.308904252267995,
        0.238212616409306,
    ]
)

# Of predicted standard deviations, as in the authors' code.
_LOG_STD_BOUNDS = -20.0, 2.0


class SquashedGaussian(Gaussian):
    """Distributions of actions center + scale * tanh(u), with u diagonal Gaussian.

    Samples are u, float32 [..., A]: for large |u|, tanh(u) rounds to 1 and u cannot be recovered
    from the action. Densities are nevertheless those of the action. The mode is the mean of u: the
    median of the action, whose density can be highest at the bounds. Divergences from a distribution
    of equal bounds are those of u, since squashing is invertible.
    """

    def __init__(self, mean: tf.Tensor, log_std: tf.Tensor, log_scale: tf.Tensor | np.ndarray):
        """Initializes the distributions.

        Args:
          mean: Mean of u, float32 [..., A].
          log_std: Logarithm of the standard deviation of u, float32 [..., A] or [A].
          log_scale: Logarithm of the scale, float32 [A].
        """
        super().__init__(mean, log_std)
        self._log_scale = log_scale

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Returns the log-density of the actions of samples [..., A], float32 [...]."""
        # log(1 - tanh(u)^2) in a form without cancellation where |tanh(u)| is close to 1.
        log_det_jacobian = 2 * (math.log(2) - sample - tf.nn.softplus(-2 * sample))  # [..., A]
        return super().log_prob(sample) - tf.reduce_sum(log_det_jacobian + self._log_scale, axis=-1)

    def entropy(self) -> tf.Tensor:
        """Returns the entropy of the action in nats, float32 [...].

        It is the entropy of u plus the expectation of
        log(1 - tanh(u)^2) = 2 log 2 - 2 log(2 cosh u), and log(2 cosh u) is the expectation of
        |u - v| for v logistic with scale 1/2. With v approximated by a mixture of Gaussians, u - v
        is also a mixture of Gaussians. The error is at most 1e-7 per dimension, besides rounding,
        also for wide distributions, where quadrature over u misses the kink of |u| between its
        nodes.
        """
        mean = self.mean[..., None]  # [..., A, 1]
        variance = tf.exp(2 * self.log_std)[..., None]  # [..., A, 1] or [A, 1]
        mixture_variance = tf.constant(0.25 / _MIXTURE_INVERSE_STDS**2, mean.dtype)  # [8]
        std = tf.sqrt(variance + mixture_variance)  # [..., A, 8] or [A, 8]
        ratio = mean / (math.sqrt(2) * std)  # [..., A, 8]
        # Expectation of |u - v| for each component of the mixture, [..., A, 8].
        distance = (
            math.sqrt(2)
            * std
            * (tf.exp(-(ratio**2)) / math.sqrt(math.pi) + ratio * tf.math.erf(ratio))
        )
        weights = tf.constant(_MIXTURE_WEIGHTS, mean.dtype)  # [8]
        log_cosh = tf.reduce_sum(distance * weights, axis=-1)  # [..., A]
        return super().entropy() + tf.reduce_sum(
            2 * (math.log(2) - log_cosh) + self._log_scale, axis=-1
        )


class ParametricSquashedGaussian(ParametricGaussian):
    """Squashed Gaussian distributions over a bounded Box that network outputs parametrize."""

    def __init__(
        self, space: spaces.Box, initial_log_std: float = 0.0, state_dependent_std: bool = False
    ):
        """Initializes the parameters.

        Args:
          space: Box of A floats with finite bounds, of any shape.
          initial_log_std: Logarithm of the standard deviation of u before training.
          state_dependent_std: Whether the standard deviation depends on the observation.
        """
        scaled = np.ones(space.shape, bool)
        super().__init__(space, initial_log_std, state_dependent_std, scaled)
        scale = center_and_scale(space)[1].reshape(-1)  # [A]
        # A dimension with a single possible value has no density; its term is omitted, so that the
        # others stay finite.
        self._log_scale = np.log(np.where(scale > 0, scale, 1.0)).astype(np.float32)

    def distribution(
        self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None
    ) -> SquashedGaussian:
        """Returns the distributions with the given parameters; there are no masks.

        Args:
          parameters: The mean [..., A] and the log standard deviation of u, [..., A] or [A].
          mask: None.
        """
        reject_mask(mask, "squashed Gaussian")
        mean, log_std = parameters
        if not self.parameters[1].independent:
            log_std = tf.clip_by_value(log_std, *_LOG_STD_BOUNDS)
        return SquashedGaussian(mean, log_std, self._log_scale)

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Squashes and scales samples [..., A]: [..., *shape] of the space's dtype."""
        return super().to_environment(tf.tanh(sample))
