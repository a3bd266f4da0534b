"""The interface of action distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import tensorflow as tf

from agents.types import NestedTensor

if TYPE_CHECKING:
    from typing_extensions import Self


class Distribution(Protocol):
    """A batch of distributions over actions, with batch dimensions [...].

    `ParametricDistribution.to_environment` converts samples to environment actions. All methods
    are stateless tensor operations of static shapes, which XLA can compile.
    """

    def sample(self, noise: tf.Tensor) -> NestedTensor:
        """Returns samples [...], a deterministic function of `ParametricDistribution.noise`.

        Args:
          noise: float32 [..., K], independent for each distribution of the batch.
        """

    def mode(self) -> NestedTensor:
        """Returns the deterministic sample of each distribution, shaped like `sample`.

        In float32: TensorFlow Lite, to which it is exported, has no arithmetic in float64.
        """

    def log_prob(self, sample: NestedTensor) -> tf.Tensor:
        """Returns the log-probability or log-density of one sample each, float32 [...].

        Of the sample, not of the action in the environment. A constant term may be left out.
        """

    def entropy(self) -> tf.Tensor:
        """Returns the entropy in nats, float32 [...]."""

    def kl(self, other: Self) -> tf.Tensor:
        """Returns the Kullback-Leibler divergence KL(self || other) in nats, float32 [...].

        Args:
          other: A batch of distributions of the same kind and shape.
        """

    def statistics(self) -> dict[str, tf.Tensor]:
        """Returns the tensors [..., *] to log as histograms; `scale` becomes `rollout/scale`."""
