"""What every family of action distributions can do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

from agents.distributions.distribution import Distribution


@dataclasses.dataclass(frozen=True)
class Parameter:
    """Numbers that a network gives for every distribution.

    Attributes:
      name: What to call it; no two parameters of a family are called the same.
      size: How many numbers.
      initial: What they are, approximately, before training.
      independent: Whether they are the same for all observations, variables instead of outputs.
    """

    name: str
    size: int
    initial: float = 0.0
    independent: bool = False


class ActionFamily(Protocol):
    """Distributions over the elements of one action space.

    Attributes:
      parameters: What tells its distributions apart, in order.
      noise_size: Random numbers that a sample takes, K.
      mask_size: Length of a mask that says which actions are valid: n for Discrete, sum(nvec) for MultiDiscrete, those
        of all leaves one after another for Dict and Tuple; 0 where there are no masks.
    """

    parameters: tuple[Parameter, ...]
    noise_size: int
    mask_size: int

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> Distribution:
        """The distributions with these parameters.

        Args:
          parameters: For each of `parameters` float32 [..., size], or [size] where it is independent.
          mask: bool or int8 [..., mask_size]: the actions that are possible. Where none is, all are.

        Returns:
          Distributions with the batch dimensions [...].
        """

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Draws all that is random about a batch of samples, float32 [*batch_shape, K].

        Apart from `Distribution.sample`, because drawing for a whole rollout takes as long as for one of its steps.
        """

    def to_environment(self, sample: Any) -> Any:
        """Samples as the environments get them: of their space's structure, shape, type and start, within its bounds.

        For NaN they get the lower bound, so that a rollout goes on to its end and it can be told where that came from.
        """


def refuse_mask(mask: tf.Tensor | None, kind: str) -> None:
    """Raises ValueError if there is a mask; for families of a `kind` that has none."""
    if mask is not None:
        raise ValueError(f"a {kind} policy takes no action mask; only Discrete and MultiDiscrete actions have masks.")
