"""The interface between networks and action distributions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from agents.distributions.distribution import Distribution
from agents.types import NestedTensor


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter vector of a distribution.

    Attributes:
      name: Unique among the parameters of a parametric distribution.
      size: Length of the vector.
      initial: Approximate value of its entries before training.
      independent: Whether it is a variable [size], the same for all observations, instead of a
        network output [..., size].
    """

    name: str
    size: int
    initial: float = 0.0
    independent: bool = False


class ParametricDistribution(Protocol):
    """The distributions over one action space that network outputs parametrize.

    Attributes:
      parameters: The parameters of a distribution, in order.
      noise_size: Random numbers per sample, K.
      mask_size: Length of an action mask: n for Discrete, sum(nvec) for MultiDiscrete, the sum over
        the leaves for Dict and Tuple; 0 for action spaces without masks.
    """

    parameters: tuple[Parameter, ...]
    noise_size: int
    mask_size: int

    def distribution(
        self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None
    ) -> Distribution:
        """Returns the distributions with the given parameters, of batch dimensions [...].

        Args:
          parameters: float32 [..., size] for each of `parameters`, [size] for independent ones.
          mask: bool or int8 [..., mask_size], whether each action is valid. A choice without any
            valid action is not masked.

        Raises:
          ValueError: A mask is given for an action space without masks.
        """

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Returns the random numbers that a batch of samples takes, float32 [*batch_shape, K].

        This is separate from `Distribution.sample` because drawing the noise of a whole rollout
        takes as long as drawing that of one step.
        """

    def to_environment(self, sample: NestedTensor) -> NestedTensor:
        """Converts samples to actions: structure, shape, dtype, start and bounds of the space.

        NaN becomes the lower bound, so that the rollout completes and the source of the NaN can be
        reported.
        """


def reject_mask(mask: tf.Tensor | None, kind: str) -> None:
    """Raises ValueError if an action mask is given to distributions of a kind without masks."""
    if mask is not None:
        raise ValueError(
            f"a {kind} policy takes no action mask; only Discrete and MultiDiscrete actions have masks."
        )
