"""Bernoulli distributions over the binary components of a MultiBinary space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.box import reshape_last
from agents.distributions.parametric_distribution import Parameter, reject_mask


class Bernoulli:
    """Independent Bernoulli distributions; samples are int32 [..., A] of 0 and 1."""

    def __init__(self, logits: tf.Tensor):
        """Initializes the distributions from log-odds, float32 [..., A]."""
        self.logits = logits

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Returns samples, int32 [..., A], from standard logistic noise [..., A]."""
        return tf.cast(self.logits + noise > 0, tf.int32)

    def mode(self) -> tf.Tensor:
        """Returns the most likely values, int32 [..., A]."""
        return tf.cast(self.logits > 0, tf.int32)

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Returns the log-probability of samples [..., A], float32 [...]."""
        negated = tf.where(sample > 0, -self.logits, self.logits)  # [..., A]
        return -tf.reduce_sum(tf.nn.softplus(negated), axis=-1)

    def entropy(self) -> tf.Tensor:
        """Returns the entropy in nats, float32 [...]."""
        # With |logits| both terms vanish for large logits; those of the signed formula cancel.
        size = tf.abs(self.logits)  # [..., A]
        return tf.reduce_sum(tf.nn.softplus(-size) + size * tf.sigmoid(-size), axis=-1)

    def kl(self, other: Bernoulli) -> tf.Tensor:
        """Returns KL(self || other) in nats, float32 [...]."""
        # Log-ratios of the probabilities of 1 and of 0, [..., A].
        one = tf.nn.softplus(-other.logits) - tf.nn.softplus(-self.logits)
        zero = tf.nn.softplus(other.logits) - tf.nn.softplus(self.logits)
        return tf.reduce_sum(
            tf.sigmoid(self.logits) * one + tf.sigmoid(-self.logits) * zero, axis=-1
        )

    def statistics(self) -> dict[str, tf.Tensor]:
        """Returns the mode and the probabilities of 1, [..., A] each."""
        return {"mode": self.mode(), "probability": tf.sigmoid(self.logits)}


class ParametricBernoulli:
    """Bernoulli distributions over a MultiBinary space that network outputs parametrize."""

    mask_size = 0

    def __init__(self, space: spaces.MultiBinary):
        """Initializes the parameters for a MultiBinary space of A components, of any shape."""
        self._space = space
        self.noise_size = int(np.prod(space.shape))
        self.parameters: tuple[Parameter, ...] = (Parameter("logits", self.noise_size),)

    def distribution(
        self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None
    ) -> Bernoulli:
        """Returns the distributions with the given logits [..., A]; there are no masks."""
        reject_mask(mask, "Bernoulli")
        (logits,) = parameters
        return Bernoulli(logits)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Returns standard logistic noise, float32 [*batch_shape, A]."""
        uniform = generator.uniform([*batch_shape, self.noise_size], minval=1e-20)  # [..., A]
        return tf.math.log(uniform) - tf.math.log1p(-uniform)

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Converts samples [..., A] to [..., *shape] of the space's dtype."""
        return tf.cast(reshape_last(sample, self._space.shape), self._space.dtype)
