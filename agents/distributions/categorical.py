"""Categorical distributions: one choice out of several, or several such choices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.action_family import Parameter
from agents.distributions.box import reshape_last


class Categorical:
    """One of n choices; samples are int32 [...]."""

    def __init__(self, logits: tf.Tensor):
        """Takes unnormalised log-probabilities [..., n], some of which may be -inf."""
        self.log_probs = tf.nn.log_softmax(logits)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Samples [...], by the Gumbel-max trick, from noise [..., n]."""
        return tf.argmax(self.log_probs + noise, axis=-1, output_type=tf.int32)

    def mode(self) -> tf.Tensor:
        """The most likely choices, [...]."""
        return tf.argmax(self.log_probs, axis=-1, output_type=tf.int32)

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Log-probability of `sample` [...]: float32 [...]."""
        # A product with a one-hot vector would give NaN for a choice of probability zero.
        return tf.gather(self.log_probs, sample, batch_dims=len(sample.shape))

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""
        return -tf.reduce_sum(tf.exp(self.log_probs) * _finite(self.log_probs), axis=-1)

    def kl(self, other: Categorical) -> tf.Tensor:
        """KL(self || other) in nats, float32 [...]."""
        difference = _finite(self.log_probs) - _finite(other.log_probs)
        return tf.reduce_sum(tf.exp(self.log_probs) * difference, axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mode and the probabilities of all choices."""
        return {"mode": self.mode(), "probability": tf.exp(self.log_probs)}


class MultiCategorical:
    """K independent choices, of n_1, ..., n_K; samples are int32 [..., K]."""

    def __init__(self, logits: tf.Tensor, sizes: Sequence[int], mask: tf.Tensor | None = None):
        """Takes unnormalised log-probabilities [..., sum(sizes)] and what is valid of them, of the same shape."""
        self._sizes = sizes
        exists = _exists(sizes)
        rows = tf.where(exists, _rows(logits, sizes), -np.inf)  # [..., K, n], n the largest size.
        if mask is not None:
            rows = only_valid(rows, tf.cast(_rows(mask, sizes), tf.bool) & exists)
        self._choices = Categorical(rows)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Samples [..., K], by the Gumbel-max trick, from noise [..., sum(sizes)]."""
        return self._choices.sample(_rows(noise, self._sizes))

    def mode(self) -> tf.Tensor:
        """The most likely choices, [..., K]."""
        return self._choices.mode()

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Log-probability of `sample` [..., K]: float32 [...]."""
        return tf.reduce_sum(self._choices.log_prob(sample), axis=-1)

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""
        return tf.reduce_sum(self._choices.entropy(), axis=-1)

    def kl(self, other: MultiCategorical) -> tf.Tensor:
        """KL(self || other) in nats, float32 [...]."""
        return tf.reduce_sum(self._choices.kl(other._choices), axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mode and the probabilities of all choices, [..., sum(sizes)]."""
        probability = self._choices.statistics()["probability"]
        size = len(self._sizes) * max(self._sizes)
        flat = tf.reshape(probability, tf.concat([tf.shape(probability)[:-2], [size]], axis=0))
        exists = np.flatnonzero(_exists(self._sizes))
        return {"mode": self.mode(), "probability": tf.gather(flat, exists, axis=-1)}


class CategoricalFamily:
    """Categorical distributions over the elements of a Discrete space."""

    def __init__(self, space: spaces.Discrete):
        """Takes a Discrete space of n elements."""
        self._space = space
        self.noise_size = self.mask_size = int(space.n)
        self.parameters: tuple[Parameter, ...] = (Parameter("logits", int(space.n)),)

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> Categorical:
        """From logits [..., n] and what is valid of them, [..., n]."""
        (logits,) = parameters
        return Categorical(logits if mask is None else only_valid(logits, mask))

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Numbers of the standard Gumbel distribution, float32 [*batch_shape, n]."""
        return gumbel(generator, [*batch_shape, self.noise_size])

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Samples [...], from the space's start on, of its type."""
        return tf.cast(sample, self._space.dtype) + int(self._space.start)


class MultiCategoricalFamily:
    """Independent categorical distributions over the numbers of a MultiDiscrete space."""

    def __init__(self, space: spaces.MultiDiscrete):
        """Takes a MultiDiscrete space of K numbers, in any shape."""
        self._space = space
        self._sizes = tuple(int(size) for size in space.nvec.reshape(-1))
        self.noise_size = self.mask_size = sum(self._sizes)
        self.parameters: tuple[Parameter, ...] = (Parameter("logits", sum(self._sizes)),)

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> MultiCategorical:
        """From logits [..., sum(nvec)] and what is valid of them, of the same shape."""
        (logits,) = parameters
        return MultiCategorical(logits, self._sizes, mask)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Numbers of the standard Gumbel distribution, float32 [*batch_shape, sum(nvec)]."""
        return gumbel(generator, [*batch_shape, self.noise_size])

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Samples [..., K], from the space's start on: [..., *shape] of its type."""
        return tf.cast(reshape_last(sample, self._space.shape), self._space.dtype) + self._space.start


def only_valid(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Logits [..., n], -inf where `mask` [..., n] is false or 0; as they are where nothing in a row is valid."""
    mask = tf.cast(mask, tf.bool)
    return tf.where(mask | ~tf.reduce_any(mask, axis=-1, keepdims=True), logits, -np.inf)


def gumbel(generator: tf.random.Generator, shape: list[int]) -> tf.Tensor:
    """Numbers of the standard Gumbel distribution, float32 of a given shape."""
    return -tf.math.log(-tf.math.log(generator.uniform(shape, minval=1e-20)))


def _finite(log_probs: tf.Tensor) -> tf.Tensor:
    """Log-probabilities whose product with probabilities of zero is zero, and so are its gradients."""
    return tf.maximum(log_probs, tf.float32.min)


def _exists(sizes: Sequence[int]) -> np.ndarray:
    """What `_rows` gives is padding where this is false: bool [K, n]."""
    return np.arange(max(sizes)) < np.array(sizes)[:, None]


def _rows(flat: tf.Tensor, sizes: Sequence[int]) -> tf.Tensor:
    """Numbers [..., sum(sizes)] as rows [..., K, n] with n the largest size, padded with other rows' numbers."""
    starts = np.cumsum([0, *sizes[:-1]])
    return tf.gather(flat, np.minimum(starts[:, None] + np.arange(max(sizes)), sum(sizes) - 1), axis=-1)
