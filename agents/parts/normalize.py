"""Normalisers: running statistics that are part of the model."""

from __future__ import annotations

import tensorflow as tf

from agents.parts.returns import discounted_sums


class RunningMoments:
    """Mean and variance of all vectors seen so far, by the pairwise update of Chan, Golub and LeVeque (1979).

    In double precision: after some million vectors, single precision would no longer count on.
    """

    def __init__(self, size: int):
        """Starts without data, for vectors of `size` numbers."""
        self.count = tf.Variable(tf.zeros([], tf.float64), trainable=False)
        self.mean = tf.Variable(tf.zeros([size], tf.float64), trainable=False)
        self.squares = tf.Variable(tf.zeros([size], tf.float64), trainable=False)

    def update(self, values: tf.Tensor) -> None:
        """Takes in a batch of vectors [N, size]."""
        values = tf.cast(values, tf.float64)
        number = tf.cast(tf.shape(values)[0], tf.float64)
        mean = tf.reduce_mean(values, axis=0)
        count = self.count + number
        delta = mean - self.mean
        squares = tf.reduce_sum((values - mean) ** 2, axis=0) + delta**2 * self.count * number / count
        self.squares.assign_add(squares)
        self.mean.assign_add(delta * number / count)
        self.count.assign(count)

    def variance(self) -> tf.Tensor:
        """Population variance, float64 [size]; one while there is no data."""
        return tf.where(self.count > 0, self.squares / tf.maximum(self.count, 1.0), tf.ones_like(self.squares))

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}


class ObservNormalizer:
    """Shifts and scales features to mean 0 and standard deviation 1, and clips them."""

    def __init__(self, size: int, clip: float, enabled: bool = True):
        """Leaves features as they are until the first `update`, and always if not `enabled`.

        Args:
          size: Number of features, O.
          clip: Largest magnitude afterwards, in standard deviations.
          enabled: Whether to normalise at all.
        """
        self._clip, self._enabled = clip, enabled
        self._moments = RunningMoments(size)
        # What acting needs at every step, so that it takes two operations and not ten.
        self._shift = tf.Variable(tf.zeros([size]), trainable=False)
        self._scale = tf.Variable(tf.ones([size]), trainable=False)

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Normalises float32 [..., O]."""
        if not self._enabled:
            return features
        return tf.clip_by_value((features - self._shift) * self._scale, -self._clip, self._clip)

    def update(self, features: tf.Tensor) -> None:
        """Takes in features [N, O]."""
        if not self._enabled:
            return
        self._moments.update(features)
        self._shift.assign(tf.cast(self._moments.mean, tf.float32))
        self._scale.assign(tf.cast(tf.math.rsqrt(self._moments.variance() + 1e-8), tf.float32))

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mean and standard deviation, [O] each; none if not enabled."""
        return (
            {"observ_mean": tf.convert_to_tensor(self._shift), "observ_std": 1 / self._scale} if self._enabled else {}
        )

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name; none if not enabled."""
        return {**self._moments.variables(), "shift": self._shift, "scale": self._scale} if self._enabled else {}


class RewardNormalizer:
    """Divides rewards by the standard deviation of the discounted return (Engstrom et al., 2020, arXiv 2005.12729)."""

    def __init__(self, num_envs: int, discount: float, clip: float, enabled: bool = True):
        """Starts without data.

        Args:
          num_envs: Number of environments, B.
          discount: Factor a step, of the return.
          clip: Largest magnitude of a normalised reward.
          enabled: Whether to normalise at all.
        """
        self._discount, self._clip, self._enabled = discount, clip, enabled
        self._moments = RunningMoments(1)
        self._sums = tf.Variable(tf.zeros([num_envs]), trainable=False)

    def __call__(self, reward: tf.Tensor, done: tf.Tensor) -> tf.Tensor:
        """Takes in a rollout's rewards, float32 [T, B], and returns them normalised; `done` is bool [T, B]."""
        if not self._enabled:
            return reward
        sums, after = discounted_sums(reward, done, self._sums, self._discount)
        self._sums.assign(after)
        self._moments.update(tf.reshape(sums, [-1, 1]))
        scale = tf.cast(tf.math.rsqrt(self._moments.variance() + 1e-8), tf.float32)
        return tf.clip_by_value(reward * scale, -self._clip, self._clip)

    def statistics(self) -> dict[str, tf.Tensor]:
        """The standard deviation, [1]; none if not enabled."""
        return {"return_std": tf.sqrt(self._moments.variance())} if self._enabled else {}

    def begin_anew(self) -> None:
        """Forgets the sums of the episodes under way, when all environments are reset."""
        self._sums.assign(tf.zeros_like(self._sums))

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name; none if not enabled."""
        return {**self._moments.variables(), "sums": self._sums} if self._enabled else {}


class ValueNormalizer:
    """Lets a value function learn returns that have mean 0 and standard deviation 1."""

    def __init__(self, enabled: bool = True):
        """Leaves values as they are until the first `update`, and always if not `enabled`."""
        self._enabled = enabled
        self._moments = RunningMoments(1)

    def __call__(self, value: tf.Tensor) -> tf.Tensor:
        """From values or returns, float32 [...], to what the value function learns."""
        if not self._enabled:
            return value
        return (value - self._mean()) / self._deviation()

    def restore(self, value: tf.Tensor) -> tf.Tensor:
        """The inverse: from what the value function gives to values, float32 [...]."""
        if not self._enabled:
            return value
        return value * self._deviation() + self._mean()

    def update(self, returns: tf.Tensor) -> None:
        """Takes in returns, of any shape."""
        if self._enabled:
            self._moments.update(tf.reshape(returns, [-1, 1]))

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name; none if not enabled."""
        return self._moments.variables() if self._enabled else {}

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mean and standard deviation, [1] each; none if not enabled."""
        return {"value_mean": self._mean(), "value_std": self._deviation()} if self._enabled else {}

    def _mean(self) -> tf.Tensor:
        return tf.cast(self._moments.mean, tf.float32)

    def _deviation(self) -> tf.Tensor:
        return tf.cast(tf.sqrt(self._moments.variance() + 1e-8), tf.float32)
