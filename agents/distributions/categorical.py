"""Categorical distributions over the elements of Discrete and MultiDiscrete spaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.box import reshape_last
from agents.distributions.parametric_distribution import Parameter


class Categorical:
    """Categorical distributions over n categories; samples are int32 [...].

    Attributes:
      log_probs: Normalized log-probabilities, float32 [..., n].
    """

    def __init__(self, logits: tf.Tensor):
        """Initializes the distributions from logits [..., n], some of which may be -inf."""
        self.log_probs = tf.nn.log_softmax(logits)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Returns samples, int32 [...], by the Gumbel-max trick from Gumbel noise [..., n]."""
        return tf.argmax(self.log_probs + noise, axis=-1, output_type=tf.int32)

    def mode(self) -> tf.Tensor:
        """Returns the most likely categories, int32 [...]."""
        return tf.argmax(self.log_probs, axis=-1, output_type=tf.int32)

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Returns the log-probability of samples [...], float32 [...]."""
        # A product with a one-hot vector is NaN if any category has probability zero.
        return tf.gather(self.log_probs, sample, batch_dims=len(sample.shape))

    def entropy(self) -> tf.Tensor:
        """Returns the entropy in nats, float32 [...]."""
        return -tf.reduce_sum(tf.exp(self.log_probs) * _clip_to_finite(self.log_probs), axis=-1)

    def kl(self, other: Categorical) -> tf.Tensor:
        """Returns KL(self || other) in nats, float32 [...]."""
        difference = _clip_to_finite(self.log_probs) - _clip_to_finite(other.log_probs)  # [..., n]
        return tf.reduce_sum(tf.exp(self.log_probs) * difference, axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Returns the mode [...] and the probabilities of all categories [..., n]."""
        return {"mode": self.mode(), "probability": tf.exp(self.log_probs)}


class MultiCategorical:
    """Independent categorical distributions over n_1, ..., n_A categories; samples are [..., A].

    The logits are padded to [..., A, n] with n the largest n_i, so that one operation processes all
    components.
    """

    def __init__(self, logits: tf.Tensor, sizes: Sequence[int], mask: tf.Tensor | None = None):
        """Initializes the distributions.

        Args:
          logits: float32 [..., sum(sizes)], those of the components one after another.
          sizes: Number of categories of each component, n_1, ..., n_A.
          mask: bool or int8 [..., sum(sizes)], whether each category is valid.
        """
        self._sizes = sizes
        is_category = _is_category(sizes)  # [A, n]
        rows = tf.where(is_category, _pad_rows(logits, sizes), -np.inf)  # [..., A, n]
        if mask is not None:
            rows = mask_logits(rows, tf.cast(_pad_rows(mask, sizes), tf.bool) & is_category)
        self._categorical = Categorical(rows)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Returns samples, int32 [..., A], from Gumbel noise [..., sum(sizes)]."""
        return self._categorical.sample(_pad_rows(noise, self._sizes))

    def mode(self) -> tf.Tensor:
        """Returns the most likely categories, int32 [..., A]."""
        return self._categorical.mode()

    def log_prob(self, sample: tf.Tensor) -> tf.Tensor:
        """Returns the log-probability of samples [..., A], float32 [...]."""
        return tf.reduce_sum(self._categorical.log_prob(sample), axis=-1)

    def entropy(self) -> tf.Tensor:
        """Returns the entropy in nats, float32 [...]."""
        return tf.reduce_sum(self._categorical.entropy(), axis=-1)

    def kl(self, other: MultiCategorical) -> tf.Tensor:
        """Returns KL(self || other) in nats, float32 [...]."""
        return tf.reduce_sum(self._categorical.kl(other._categorical), axis=-1)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Returns the mode [..., A] and the probabilities of all categories [..., sum(sizes)]."""
        probability = self._categorical.statistics()["probability"]  # [..., A, n]
        size = len(self._sizes) * max(self._sizes)
        flat = tf.reshape(probability, tf.concat([tf.shape(probability)[:-2], [size]], axis=0))
        categories = np.flatnonzero(_is_category(self._sizes))  # [sum(sizes)]
        return {"mode": self.mode(), "probability": tf.gather(flat, categories, axis=-1)}


class ParametricCategorical:
    """Categorical distributions over a Discrete space that network outputs parametrize."""

    def __init__(self, space: spaces.Discrete):
        """Initializes the parameters for a Discrete space of n elements."""
        self._space = space
        self.noise_size = self.mask_size = int(space.n)
        self.parameters: tuple[Parameter, ...] = (Parameter("logits", int(space.n)),)

    def distribution(
        self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None
    ) -> Categorical:
        """Returns the distributions with the given logits [..., n] and action mask [..., n]."""
        (logits,) = parameters
        return Categorical(logits if mask is None else mask_logits(logits, mask))

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Returns standard Gumbel noise, float32 [*batch_shape, n]."""
        return gumbel_noise(generator, [*batch_shape, self.noise_size])

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Converts samples [...] to the space's dtype and adds its start."""
        return tf.cast(tf.cast(sample, tf.int64) + int(self._space.start), self._space.dtype)


class ParametricMultiCategorical:
    """Categorical distributions over a MultiDiscrete space that network outputs parametrize."""

    def __init__(self, space: spaces.MultiDiscrete):
        """Initializes the parameters for a MultiDiscrete space of A components, of any shape."""
        self._space = space
        self._sizes = tuple(int(size) for size in space.nvec.reshape(-1))  # [A]
        self.noise_size = self.mask_size = sum(self._sizes)
        self.parameters: tuple[Parameter, ...] = (Parameter("logits", sum(self._sizes)),)

    def distribution(
        self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None
    ) -> MultiCategorical:
        """Returns the distributions with the given logits and mask, [..., sum(nvec)] each."""
        (logits,) = parameters
        return MultiCategorical(logits, self._sizes, mask)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Returns standard Gumbel noise, float32 [*batch_shape, sum(nvec)]."""
        return gumbel_noise(generator, [*batch_shape, self.noise_size])

    def to_environment(self, sample: tf.Tensor) -> tf.Tensor:
        """Converts samples [..., A] to [..., *shape] of the space's dtype and adds its start."""
        action = tf.cast(reshape_last(sample, self._space.shape), tf.int64)
        start = self._space.start.astype(np.int64)
        return tf.cast(action + start, self._space.dtype)  # [..., *shape]


def mask_logits(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Sets the logits of invalid categories to -inf, except in rows without any valid category.

    Args:
      logits: float32 [..., n].
      mask: bool or int8 [..., n], whether each category is valid.

    Returns:
      float32 [..., n].
    """
    mask = tf.cast(mask, tf.bool)
    any_valid = tf.reduce_any(mask, axis=-1, keepdims=True)  # [..., 1]
    return tf.where(mask | ~any_valid, logits, -np.inf)


def gumbel_noise(generator: tf.random.Generator, shape: Sequence[int]) -> tf.Tensor:
    """Returns standard Gumbel noise, float32 of the given shape."""
    return -tf.math.log(-tf.math.log(generator.uniform(shape, minval=1e-20)))


def _clip_to_finite(log_probs: tf.Tensor) -> tf.Tensor:
    """Clips log-probabilities, so that products with zero probabilities have zero gradients."""
    return tf.maximum(log_probs, tf.float32.min)


def _is_category(sizes: Sequence[int]) -> np.ndarray:
    """Returns bool [A, n], false for the padding in `_pad_rows`."""
    return np.arange(max(sizes)) < np.array(sizes)[:, None]


def _pad_rows(flat: tf.Tensor, sizes: Sequence[int]) -> tf.Tensor:
    """Splits [..., sum(sizes)] into rows [..., A, n], padded with entries of other rows."""
    starts = np.cumsum([0, *sizes[:-1]])  # [A]
    indices = np.minimum(starts[:, None] + np.arange(max(sizes)), sum(sizes) - 1)  # [A, n]
    return tf.gather(flat, indices, axis=-1)
