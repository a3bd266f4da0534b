"""Distributions over several actions at once, independent of each other given the observation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from gymnasium import spaces

from agents.distributions.action_family import ActionFamily, Parameter, refuse_mask
from agents.distributions.distribution import Distribution
from agents.tools.spaces import pack


class Joint:
    """Independent distributions; samples are tuples of theirs."""

    def __init__(self, parts: Sequence[Distribution], noise_sizes: Sequence[int]):
        """Takes distributions with the same batch dimensions [...], and how many random numbers each of them needs."""
        self._parts, self._noise_sizes = parts, noise_sizes

    def sample(self, noise: tf.Tensor) -> tuple:
        """One sample of every part, from noise [..., K], theirs one after another."""
        noises = tf.split(noise, self._noise_sizes, axis=-1)
        return tuple(part.sample(noise) for part, noise in zip(self._parts, noises, strict=True))

    def mode(self) -> tuple:
        """The modes of the parts."""
        return tuple(part.mode() for part in self._parts)

    def log_prob(self, sample: Sequence[Any]) -> tf.Tensor:
        """Sum over the parts of the log-probability or log-density of a sample, float32 [...]."""
        return tf.add_n([part.log_prob(one) for part, one in zip(self._parts, sample, strict=True)])

    def entropy(self) -> tf.Tensor:
        """Sum of the parts' entropies in nats, float32 [...]."""
        return tf.add_n([part.entropy() for part in self._parts])

    def kl(self, other: Joint) -> tf.Tensor:
        """KL(self || other) in nats, float32 [...]."""
        return tf.add_n([part.kl(one) for part, one in zip(self._parts, other._parts, strict=True)])

    def statistics(self) -> dict[str, tf.Tensor]:
        """Those of the parts; the first one's have names like mode_0."""
        return {
            f"{name}_{index}": array
            for index, part in enumerate(self._parts)
            for name, array in part.statistics().items()
        }


class JointFamily:
    """Distributions over the elements of a Dict or Tuple space, with a family of its own for each leaf."""

    def __init__(self, space: spaces.Dict | spaces.Tuple, families: Sequence[ActionFamily]):
        """Takes the space, and one family for each of its leaves, in the order of `agents.tools.spaces.leaf_spaces`."""
        self._space, self._families = space, families
        self._noise_sizes = [family.noise_size for family in families]
        self._mask_sizes = [family.mask_size for family in families]
        self.noise_size, self.mask_size = sum(self._noise_sizes), sum(self._mask_sizes)
        self.parameters: tuple[Parameter, ...] = tuple(
            dataclasses.replace(parameter, name=f"{parameter.name}_{index}")
            for index, family in enumerate(families)
            for parameter in family.parameters
        )

    def distribution(self, parameters: Sequence[tf.Tensor], mask: tf.Tensor | None = None) -> Joint:
        """From the families' parameters, one after another, and their masks, [..., mask_size] in all."""
        if not self.mask_size:
            refuse_mask(mask, "joint")
        masks = [None] * len(self._families) if mask is None else tf.split(mask, self._mask_sizes, axis=-1)
        remaining, parts = iter(parameters), []
        for family, part_mask in zip(self._families, masks, strict=True):
            own = [next(remaining) for _ in family.parameters]
            parts.append(family.distribution(own, part_mask if family.mask_size else None))
        return Joint(parts, self._noise_sizes)

    def noise(self, generator: tf.random.Generator, batch_shape: Sequence[int]) -> tf.Tensor:
        """The families' noise, one after another, float32 [*batch_shape, K]."""
        return tf.concat([family.noise(generator, batch_shape) for family in self._families], axis=-1)

    def to_environment(self, sample: Sequence[Any]) -> Any:
        """Samples of the leaves as a structure like that of the space."""
        leaves = [family.to_environment(one) for family, one in zip(self._families, sample, strict=True)]
        return pack(self._space, leaves)
