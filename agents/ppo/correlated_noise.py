"""Correlated exploration noise, for environments where single random steps cancel out."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


class CorrelatedNoise:
    """A first-order autoregressive process: n_t = rho * n_{t-1} + sqrt(1 - rho^2) * e_t.

    Every n_t is standard normal, as the e_t are, so that a policy's log-probabilities hold for
    each step; the update ignores the dependence between steps, as in Hollenstein et al., "Colored
    Noise in PPO" (2024, arXiv 2312.11091).
    """

    def __init__(self, correlation: float, start: tf.Tensor):
        """Starts the process, which continues over episodes, rollouts and checkpoints.

        Args:
          correlation: Lag-1 autocorrelation rho, in [0, 1); 0 leaves noise as it is.
          start: The noise before the first step, standard normal, float32 [B, K].
        """
        self._correlation = correlation
        self._last = tf.Variable(start, trainable=False)

    def correlate(self, noise: tf.Tensor) -> tf.Tensor:
        """Correlates the independent noise of a rollout; the next call continues the process.

        Args:
          noise: Standard normal numbers, float32 [T, B, K].

        Returns:
          float32 [T, B, K].
        """
        if not self._correlation:
            return noise
        steps = np.arange(noise.shape[0])
        age = steps[:, None] - steps[None]  # [T, T]
        weights = np.where(age >= 0, self._correlation ** np.maximum(age, 0.0), 0.0)  # [T, T]
        weights *= np.sqrt(1 - self._correlation**2)
        decay = tf.constant(self._correlation ** (steps + 1.0), tf.float32)  # [T]
        independent = tf.tensordot(tf.constant(weights, tf.float32), noise, axes=1)  # [T, B, K]
        correlated = independent + decay[:, None, None] * self._last
        self._last.assign(correlated[-1])
        return correlated

    def variables(self) -> dict[str, tf.Variable]:
        """The state, by name; none without correlation."""
        return {"last": self._last} if self._correlation else {}
