"""What every action distribution can do."""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow as tf


class Distribution(Protocol):
    """A batch of distributions over actions, with batch dimensions [...].

    Samples are as the policy has them; `ActionFamily.to_environment` makes actions of them. All methods are plain
    tensor operations of static shapes, which compile with XLA.
    """

    def sample(self, noise: tf.Tensor) -> Any:
        """One sample each, from noise [..., K] of its own; see `ActionFamily.noise`."""

    def mode(self) -> Any:
        """The sample that stands for each distribution when nothing is left to chance."""

    def log_prob(self, sample: Any) -> tf.Tensor:
        """Logarithm of the probability (density) of one sample each, float32 [...]."""

    def entropy(self) -> tf.Tensor:
        """Entropy in nats, float32 [...]."""

    def kl(self, other: Any) -> tf.Tensor:
        """Kullback-Leibler divergence KL(self || other) in nats, float32 [...]; `other` is of the same kind."""

    def statistics(self) -> dict[str, tf.Tensor]:
        """What is worth a histogram, by name."""
