"""Action distributions."""

from __future__ import annotations

import math
from typing import Protocol

import tensorflow as tf


class Distribution(Protocol):
    """A batch of distributions over actions, with batch dimensions [...]."""

    @staticmethod
    def noise(generator: tf.random.Generator, shape: list[int]) -> tf.Tensor:
        """Draws what is random about samples, for distributions whose parameters have this shape, [..., A].

        Apart from `sample`, because drawing for a whole rollout takes as long as drawing for one of its steps.
        """

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """One action each, from noise of its own."""

    def mode(self) -> tf.Tensor:
        """The most likely action of each."""

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """Logarithm of the probability (density) of one action each, float32 [...]."""

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""

    def statistics(self) -> dict[str, tf.Tensor]:
        """What is worth a histogram, by name."""


class DiagonalGaussian:
    """Independent normal distributions; actions are float32 [..., A]."""

    def __init__(self, mean: tf.Tensor, log_std: tf.Tensor):
        """Takes `mean` [..., A] and the logarithm of the standard deviation, of a shape that fits it."""
        self.mean, self.log_std = mean, log_std

    @staticmethod
    def noise(generator: tf.random.Generator, shape: list[int]) -> tf.Tensor:
        """Standard normal numbers, float32 [..., A]."""
        return generator.normal(shape)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Actions [..., A]."""
        return self.mean + tf.exp(self.log_std) * noise

    def mode(self) -> tf.Tensor:
        """The mean, [..., A]."""
        return self.mean

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """Log-density of `action` [..., A], summed over the dimensions of the action: float32 [...]."""
        standard = (action - self.mean) * tf.exp(-self.log_std)
        return -tf.reduce_sum(0.5 * standard**2 + self.log_std + 0.5 * math.log(2 * math.pi), axis=-1)

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""
        log_std = tf.broadcast_to(self.log_std, tf.shape(self.mean))
        return tf.reduce_sum(log_std + 0.5 * math.log(2 * math.pi * math.e), axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mode and standard deviation."""
        return {"mode": self.mean, "std": tf.exp(tf.broadcast_to(self.log_std, tf.shape(self.mean)))}


class Categorical:
    """One of A actions; actions are int32 [...]."""

    def __init__(self, logits: tf.Tensor):
        """Takes unnormalised log-probabilities [..., A]."""
        self.log_probs = tf.nn.log_softmax(logits)

    @staticmethod
    def noise(generator: tf.random.Generator, shape: list[int]) -> tf.Tensor:
        """Numbers of the standard Gumbel distribution, float32 [..., A]."""
        return -tf.math.log(-tf.math.log(generator.uniform(shape, minval=1e-20)))

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Actions [...], by the Gumbel-max trick."""
        return tf.argmax(self.log_probs + noise, axis=-1, output_type=tf.int32)

    def mode(self) -> tf.Tensor:
        """The most likely actions, [...]."""
        return tf.argmax(self.log_probs, axis=-1, output_type=tf.int32)

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """Log-probability of `action` [...]: float32 [...]."""
        # A product with a one-hot vector would give NaN for an action of probability zero.
        return tf.gather(self.log_probs, action, batch_dims=len(action.shape))

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""
        return -tf.reduce_sum(tf.exp(self.log_probs) * tf.maximum(self.log_probs, tf.float32.min), axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mode and the probabilities of all actions."""
        return {"mode": self.mode(), "probability": tf.exp(self.log_probs)}
