"""Joint distributions over the leaves of a Dict or Tuple space, independent of each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from agents.distributions.distribution import Distribution
from agents.distributions.parametric_distribution import (
    Parameter,
    ParametricDistribution,
    reject_mask,
)
from agents.spaces import pack
from agents.types import NestedTensor, Space


class Joint:
    """Joint distributions of independent components; samples are tuples of component samples."""

    def __init__(self, components: Sequence[Distribution], noise_sizes: Sequence[int]):
        """Initializes the distributions.

        Args:
          components: Distributions with the same batch dimensions [...].
          noise_sizes: Random numbers per sample of each component.
        """
        self._components, self._noise_sizes = components, noise_sizes

    def sample(self, noise: tf.Tensor) -> tuple[NestedTensor, ...]:
        """Returns a sample of each component from noise [..., K], split in their order."""
        noises = tf.split(noise, self._noise_sizes, axis=-1)
        pairs = zip(self._components, noises, strict=True)
        return tuple(component.sample(part) for component, part in pairs)

    def mode(self) -> tuple[NestedTensor, ...]:
        """Returns the modes of the components."""
        return tuple(component.mode() for component in self._components)

    def log_prob(self, sample: Sequence[NestedTensor]) -> tf.Tensor:
        """Returns the sum of the components' log-probabilities or log-densities, float32 [...]."""
        pairs = zip(self._components, sample, strict=True)
        return tf.add_n([component.log_prob(part) for component, part in pairs])

    def entropy(self) -> tf.Tensor:
        """Returns the sum of the components' entropies in nats, float32 [...]."""
        return tf.add_n([component.entropy() for component in self._components])

    def kl(self, other: Joint) -> tf.Tensor:
        """Returns KL(self || other) in nats, float32 [...]."""
        pairs = zip(self._components, other._components, strict=True)
        return tf.add_n([component.kl(counterpart) for component, counterpart in pairs])

    def statistics(self) -> dict[str, tf.Tensor]:
        """Returns the statistics of the components, with the index appended, such as mode_0."""
        return {
            f"{name}_{index}": tensor
            for index, component in enumerate(self._components)
            for name, tensor in component.statistics().items()
        }


class ParametricJoint:
    """Joint distributions over a Dict or Tuple space that network outputs parametrize."""

    def __init__(self, space: Space, components: Sequence[ParametricDistribution]):
        """Initializes the parameters, those of the components one after another.

        Args:
          space: Dict or Tuple space, nested or not.
          components: One for each leaf, in the order of `agents.spaces.leaf_spaces`.
        """
        self._space, self._components = space, components
        self._noise_sizes = [component.noise_size for component in components]
        self._mask_sizes = [component.mask_size for component in components]
        self.noise_size, self.mask_size = sum(self._noise_sizes), sum(self._mask_sizes)
        self.parameters: tuple[Parameter, ...] = tuple(
            dataclasses.replace(parameter, name=f"{parameter.name}_{index}")
            for index, component in enumerate(components)
            for parameter in component.parameters
        )

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> Joint:
        """Returns the distributions with the given parameters.

        Args:
          parameters: Those of the components one after another.
          mask: The components' masks one after another, [..., mask_size].
        """
        if not self.mask_size:
            reject_mask(mask, "joint")
        masks: Sequence[tf.Tensor | None] = [None] * len(self._components)
        if mask is not None:
            masks = tf.split(mask, self._mask_sizes, axis=-1)
        remaining, distributions = iter(parameters), []
        for component, component_mask in zip(self._components, masks, strict=True):
            own = [next(remaining) for _ in component.parameters]
            own_mask = component_mask if component.mask_size else None
            distributions.append(component.distribution(own, own_mask))
        return Joint(distributions, self._noise_sizes)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """Returns the components' noise one after another, float32 [*batch_shape, K]."""
        noises = [component.noise(generator, batch_shape) for component in self._components]
        return tf.concat(noises, axis=-1)

    def to_environment(self, sample: Sequence[NestedTensor]) -> NestedTensor:
        """Converts the components' samples to a structure of the space."""
        pairs = zip(self._components, sample, strict=True)
        return pack(self._space, [component.to_environment(part) for component, part in pairs])
