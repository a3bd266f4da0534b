"""Normal distributions squashed into bounds by the hyperbolic tangent (Haarnoja et al., 2018, arXiv 1801.01290, C)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.action_family import refuse_mask
from agents.distributions.box import to_box
from agents.distributions.gaussian import Gaussian, gaussian_parameters

# The logistic distribution as a mixture of eight centred normal ones, its distribution function exact to 3e-9
# (Monahan and Stefanski, 1992, "Normal scale mixture approximations to F*(z) and computation of the logistic-normal
# integral"): weights and the inverses of the deviations.
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
_MIXTURE_PRECISIONS = np.array(
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


class SquashedGaussian:
    """Independent normal distributions of u, where center + scale * tanh(u) is the action.

    Samples are u, float32 [..., A]: far out, tanh(u) rounds to one and u could not be had back. Densities are those of
    the action nevertheless.
    """

    def __init__(self, mean: tf.Tensor, log_std: tf.Tensor, log_scale: tf.Tensor | np.ndarray):
        """Takes mean [..., A] and logarithm of the deviation of u, and the logarithm of the scale, [A]."""
        self._normal, self._log_scale = Gaussian(mean, log_std), log_scale

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Samples [..., A] from standard normal numbers [..., A]."""
        return self._normal.sample(noise)

    def mode(self) -> tf.Tensor:
        """The mean of u, [..., A]: the median of the action, whose density may be highest at the bounds."""
        return self._normal.mode()

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Log-density of the actions that `sample` [..., A] stands for, float32 [...]."""
        # log(1 - tanh(u)^2), without its loss of digits where tanh(u) is almost one.
        log_slope = 2 * (math.log(2) - sample - tf.nn.softplus(-2 * sample))
        return self._normal.log_prob(sample) - tf.reduce_sum(log_slope + self._log_scale, axis=-1)

    def entropy(self) -> tf.Tensor:
        """Entropy of the action in nats, float32 [...], exact to 1e-7 for each dimension but for rounding.

        It is the entropy of u plus the mean of log(1 - tanh(u)^2) = 2 log 2 - 2 log(2 cosh u), and log(2 cosh u) is the
        mean of |u - v|, for v logistic with scale 1/2. With v a mixture of normal distributions, u - v is one too. It
        is as exact for wide distributions, where quadrature over u sees the kink of |u| between its nodes.
        """
        mean = self._normal.mean[..., None]  # [..., A, 1]
        variance = tf.exp(2 * self._normal.log_std)[..., None]
        std = tf.sqrt(variance + tf.constant(0.25 / _MIXTURE_PRECISIONS**2, mean.dtype))  # [..., A, 8] or [A, 8]
        ratio = mean / (math.sqrt(2) * std)
        distance = math.sqrt(2) * std * (tf.exp(-(ratio**2)) / math.sqrt(math.pi) + ratio * tf.math.erf(ratio))
        log_cosh = tf.reduce_sum(distance * tf.constant(_MIXTURE_WEIGHTS, mean.dtype), axis=-1)  # [..., A]
        return self._normal.entropy() + tf.reduce_sum(2 * (math.log(2) - log_cosh) + self._log_scale, axis=-1)

    def kl(self, other: SquashedGaussian) -> tf.Tensor:
        """KL(self || other) in nats, float32 [...]: that of u, since squashing can be undone; for equal bounds."""
        return self._normal.kl(other._normal)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mode and standard deviation of u."""
        return self._normal.statistics()


class SquashedGaussianFamily:
    """Squashed normal distributions over the numbers of a bounded Box."""

    mask_size = 0

    def __init__(self, space: spaces.Box, initial_log_std: float = 0.0, state_dependent_std: bool = False):
        """Takes a Box of A floats within finite bounds; see `gaussian_parameters` for the rest."""
        self._space = space
        low, high = (np.asarray(bound, np.float64).reshape(-1) for bound in (space.low, space.high))
        self._center, self._scale = low / 2 + high / 2, high / 2 - low / 2  # [A]; the sum itself might be infinite.
        # A dimension with one possible value has no density; its share is left out, and all else stays finite.
        self._log_scale = np.log(np.where(self._scale > 0, self._scale, 1.0)).astype(np.float32)
        self.noise_size = len(low)
        self.parameters = gaussian_parameters(self.noise_size, initial_log_std, state_dependent_std)

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> SquashedGaussian:
        """From mean [..., A] and logarithm of the deviation, [..., A] or [A], of u; there is no mask."""
        refuse_mask(mask, "squashed Gaussian")
        mean, log_std = parameters
        return SquashedGaussian(mean, log_std, self._log_scale)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Standard normal numbers, float32 [*batch_shape, A]."""
        return generator.normal([*batch_shape, self.noise_size])

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Samples [..., A], squashed and scaled to the bounds: [..., *shape] of the space's type."""
        squashed = tf.cast(tf.tanh(sample), self._space.dtype)
        center, scale = (tf.constant(values, self._space.dtype) for values in (self._center, self._scale))
        return to_box(self._space, center + scale * squashed)
