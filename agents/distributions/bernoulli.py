"""Bernoulli distributions: several choices between no and yes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.action_family import Parameter, refuse_mask
from agents.distributions.box import reshape_last


class Bernoulli:
    """K independent choices; samples are int32 [..., K], 0 or 1."""

    def __init__(self, logits: tf.Tensor):
        """Takes the logarithms of the odds, float32 [..., K]."""
        self.logits = logits

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Samples [..., K] from numbers of the standard logistic distribution, [..., K]."""
        return tf.cast(self.logits + noise > 0, tf.int32)

    def mode(self) -> tf.Tensor:
        """The more likely choices, [..., K]."""
        return tf.cast(self.logits > 0, tf.int32)

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Log-probability of `sample` [..., K]: float32 [...]."""
        return -tf.reduce_sum(tf.nn.softplus(tf.where(sample > 0, -self.logits, self.logits)), axis=-1)

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""
        size = tf.abs(self.logits)  # Both terms vanish far out, where those of the signed formula cancel.
        return tf.reduce_sum(tf.nn.softplus(-size) + size * tf.sigmoid(-size), axis=-1)

    def kl(self, other: Bernoulli) -> tf.Tensor:
        """KL(self || other) in nats, float32 [...]."""
        yes = tf.nn.softplus(-other.logits) - tf.nn.softplus(-self.logits)
        no = tf.nn.softplus(other.logits) - tf.nn.softplus(self.logits)
        return tf.reduce_sum(tf.sigmoid(self.logits) * yes + tf.sigmoid(-self.logits) * no, axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mode and the probabilities of yes."""
        return {"mode": self.mode(), "probability": tf.sigmoid(self.logits)}


class BernoulliFamily:
    """Independent Bernoulli distributions over the numbers of a MultiBinary space."""

    mask_size = 0

    def __init__(self, space: spaces.MultiBinary):
        """Takes a MultiBinary space of K numbers, in any shape."""
        self._space = space
        self.noise_size = int(np.prod(space.shape))
        self.parameters: tuple[Parameter, ...] = (Parameter("logits", self.noise_size),)

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> Bernoulli:
        """From logits [..., K]; there is no mask."""
        refuse_mask(mask, "Bernoulli")
        (logits,) = parameters
        return Bernoulli(logits)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Numbers of the standard logistic distribution, float32 [*batch_shape, K]."""
        uniform = generator.uniform([*batch_shape, self.noise_size], minval=1e-20)
        return tf.math.log(uniform) - tf.math.log1p(-uniform)

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Samples [..., K] as [..., *shape] of the space's type."""
        return tf.cast(reshape_last(sample, self._space.shape), self._space.dtype)
