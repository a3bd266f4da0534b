"""Noise that lasts from one step to the next, for exploration where single steps cancel out."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


class CorrelatedNoise:
    """A first-order autoregressive process: n_t = correlation * n_{t-1} + sqrt(1 - correlation^2) * e_t.

    Every n_t is standard normal, as the e_t are, so that a policy's log-probabilities hold step by step; what is
    learned ignores that steps depend on one another, as in Hollenstein et al., "Colored Noise in PPO" (2024,
    arXiv 2312.11091).
    """

    def __init__(self, correlation: float, shape: list[int]):
        """Starts from zero, for noise of a shape [B, K]; a correlation of 0 leaves noise as it is."""
        self._correlation = correlation
        self._last = tf.Variable(tf.zeros(shape), trainable=False)

    def __call__(self, noise: tf.Tensor) -> tf.Tensor:
        """From independent to correlated noise of the steps of a rollout, float32 [T, B, K]; the next call goes on."""
        if not self._correlation:
            return noise
        steps = np.arange(noise.shape[0])
        age = steps[:, None] - steps[None]
        weights = np.where(age >= 0, self._correlation ** np.maximum(age, 0.0), 0.0)  # [T, T]
        weights *= np.sqrt(1 - self._correlation**2)
        decay = tf.constant(self._correlation ** (steps + 1.0), tf.float32)  # [T]
        noise = tf.tensordot(tf.constant(weights, tf.float32), noise, axes=1) + decay[:, None, None] * self._last
        self._last.assign(noise[-1])
        return noise

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name; none without correlation."""
        return {"last": self._last} if self._correlation else {}
