"""Normalizers: running statistics that are part of the model."""

from __future__ import annotations

import tensorflow as tf

from agents.learning.reduction import SINGLE_LEARNER, Mask, Reducer, is_mask, masked, masked_mean
from agents.learning.returns import discounted_sums


class RunningMoments:
    """Mean and variance of all vectors so far.

    The pairwise update of Chan, Golub and LeVeque (1979), in float64: a float32 count stops
    increasing at 2^24.
    """

    def __init__(self, size: int):
        """Starts without data, for vectors of `size` numbers."""
        self.count = tf.Variable(tf.zeros([], tf.float64), trainable=False)
        self.mean = tf.Variable(tf.zeros([size], tf.float64), trainable=False)
        self.squares = tf.Variable(tf.zeros([size], tf.float64), trainable=False)

    def update(
        self, values: tf.Tensor, valid: Mask = (), reducer: Reducer = SINGLE_LEARNER
    ) -> None:
        """Adds a batch of vectors of each learner.

        Args:
          values: [N, size], of this learner.
          valid: bool, N elements of any shape, the vectors to add, if not all.
          reducer: Combines several learners.
        """
        values = tf.cast(values, tf.float64)
        num_values = tf.cast(tf.shape(values)[0], tf.float64)
        if is_mask(valid):
            valid = tf.reshape(valid, [-1])
            num_values = tf.reduce_sum(tf.cast(valid, tf.float64))
        num_values = reducer.sum(num_values)
        mean = masked_mean(values, valid, reducer, axis=0)  # [size]
        count = self.count + num_values
        if is_mask(valid):
            count = tf.maximum(count, 1.0)  # All of the first values may be invalid.
        delta = mean - self.mean  # [size]
        squares = reducer.sum(tf.reduce_sum(masked((values - mean) ** 2, valid), axis=0))
        squares += delta**2 * self.count * num_values / count
        self.squares.assign_add(squares)
        self.mean.assign_add(delta * num_values / count)
        self.count.assign_add(num_values)

    def variance(self) -> tf.Tensor:
        """Population variance, float64 [size]; one while there is no data."""
        variance = self.squares / tf.maximum(self.count, 1.0)
        return tf.where(self.count > 0, variance, tf.ones_like(self.squares))

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}


class ObservNormalizer:
    """Scales features to mean 0 and standard deviation 1, and clips them."""

    def __init__(self, size: int, clip: float, enabled: bool = True, dtype: tf.DType = tf.float32):
        """Starts without data: features are only clipped until the first `update`.

        Args:
          size: Number of features, O.
          clip: Largest magnitude of normalized features, in standard deviations.
          enabled: Whether to normalize at all.
          dtype: Type of the features, float32, or float64 for what float32 would round.
        """
        self._clip, self._enabled = clip, enabled
        self._moments = RunningMoments(size)
        # Derived from the moments, so that acting takes two operations a step and not ten.
        self._shift = tf.Variable(tf.zeros([size], dtype), trainable=False)
        self._scale = tf.Variable(tf.ones([size], dtype), trainable=False)

    def normalize(self, features: tf.Tensor) -> tf.Tensor:
        """Normalizes features [..., O] of the given type, or of float32; returns float32."""
        if not self._enabled:
            return tf.cast(features, tf.float32)
        shift, scale = (tf.cast(one, features.dtype) for one in (self._shift, self._scale))
        scaled = tf.cast((features - shift) * scale, tf.float32)  # [..., O]
        return tf.clip_by_value(scaled, -self._clip, self._clip)

    def update(self, features: tf.Tensor, reducer: Reducer = SINGLE_LEARNER) -> None:
        """Adds features [N, O] of each learner to the statistics."""
        if not self._enabled:
            return
        self._moments.update(features, reducer=reducer)
        scale = tf.math.rsqrt(self._moments.variance() + 1e-8)
        self._shift.assign(tf.cast(self._moments.mean, self._shift.dtype))
        self._scale.assign(tf.cast(scale, self._scale.dtype))

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mean and standard deviation, [O] each; none if not enabled."""
        if not self._enabled:
            return {}
        return {"observ_mean": tf.convert_to_tensor(self._shift), "observ_std": 1 / self._scale}

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name; none if not enabled."""
        if not self._enabled:
            return {}
        return {**self._moments.variables(), "shift": self._shift, "scale": self._scale}


class RewardNormalizer:
    """Divides rewards by the standard deviation of the discounted return.

    Engstrom et al., "Implementation Matters in Deep Policy Gradients", 2020, arXiv 2005.12729.
    """

    def __init__(self, num_envs: int, discount: float, clip: float, enabled: bool = True):
        """Starts without data.

        Args:
          num_envs: Number of environments of all learners.
          discount: Discount factor of the return.
          clip: Largest magnitude of normalized rewards.
          enabled: Whether to normalize at all.
        """
        self._discount, self._clip, self._enabled = discount, clip, enabled
        self._moments = RunningMoments(1)
        self._sums = tf.Variable(tf.zeros([num_envs]), trainable=False)

    def update_and_normalize(
        self,
        reward: tf.Tensor,
        done: tf.Tensor,
        valid: Mask = (),
        reducer: Reducer = SINGLE_LEARNER,
    ) -> tf.Tensor:
        """Adds a rollout to the statistics and returns its normalized rewards.

        Args:
          reward: float32 [T, B], of this learner.
          done: bool [T, B].
          valid: bool [T, B], the steps whose sums are added, if not all.
          reducer: Combines the statistics of several learners.

        Returns:
          float32 [T, B].
        """
        if not self._enabled:
            return reward
        before = reducer.own(tf.convert_to_tensor(self._sums))  # [B]
        sums, after = discounted_sums(reward, done, before, self._discount)  # [T, B], [B]
        self._sums.assign(reducer.gather(after))
        self._moments.update(tf.reshape(sums, [-1, 1]), valid, reducer)
        scale = tf.cast(tf.math.rsqrt(self._moments.variance() + 1e-8), tf.float32)
        return tf.clip_by_value(reward * scale, -self._clip, self._clip)

    def reset_episode_state(self) -> None:
        """Clears the running sums after all environments were reset."""
        self._sums.assign(tf.zeros_like(self._sums))

    def statistics(self) -> dict[str, tf.Tensor]:
        """The standard deviation, [1]; none if not enabled."""
        return {"return_std": tf.sqrt(self._moments.variance())} if self._enabled else {}

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name; none if not enabled."""
        return {**self._moments.variables(), "sums": self._sums} if self._enabled else {}


class ValueNormalizer:
    """Scales value targets to mean 0 and standard deviation 1 (van Hasselt et al., 2016).

    "Learning values across many orders of magnitude", arXiv 1602.07714, without preserving outputs.
    """

    def __init__(self, enabled: bool = True):
        """Starts without data: values stay as they are until the first `update`."""
        self._enabled = enabled
        self._moments = RunningMoments(1)

    def normalize(self, value: tf.Tensor) -> tf.Tensor:
        """Normalizes values or value targets, float32 [...]."""
        if not self._enabled:
            return value
        return (value - self._mean()) / self._deviation()

    def denormalize(self, value: tf.Tensor) -> tf.Tensor:
        """The inverse of `normalize`, for the outputs of the value function, float32 [...]."""
        if not self._enabled:
            return value
        return value * self._deviation() + self._mean()

    def update(
        self, targets: tf.Tensor, valid: Mask = (), reducer: Reducer = SINGLE_LEARNER
    ) -> None:
        """Adds value targets [...] of each learner; if given, those of the mask, bool [...]."""
        if self._enabled:
            self._moments.update(tf.reshape(targets, [-1, 1]), valid, reducer)

    def statistics(self) -> dict[str, tf.Tensor]:
        """Mean and standard deviation, [1] each; none if not enabled."""
        if not self._enabled:
            return {}
        return {"value_mean": self._mean(), "value_std": self._deviation()}

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name; none if not enabled."""
        return self._moments.variables() if self._enabled else {}

    def _mean(self) -> tf.Tensor:
        return tf.cast(self._moments.mean, tf.float32)

    def _deviation(self) -> tf.Tensor:
        return tf.cast(tf.sqrt(self._moments.variance() + 1e-8), tf.float32)
