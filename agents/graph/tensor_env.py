"""The interface of environments in TensorFlow, and their random numbers.

Random numbers are pure functions of a key, at any batch size, compiled or not.
"""

from __future__ import annotations

import abc

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from agents.types import NestedTensor, Space

_GAMMA = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio.


class TensorEnv(abc.ABC):
    """An environment as pure functions of a batch; subclass it to implement one.

    A state is a `tf.nest` structure of tensors [B, ...] with one row per environment. The functions
    process rows independently, have no side effects, and consist of operations of static shapes, so
    that XLA can compile them. Randomness comes from `uniform` only: numbers that depend on the
    environment's seed, its episode and its step.

    `InGraphTensorEnv` implements autoreset, time limits and action repeat.

    Attributes:
      observation_space: Gymnasium space of one environment's observations.
      action_space: Gymnasium space of one environment's actions.
    """

    observation_space: Space
    action_space: Space

    @abc.abstractmethod
    def initial_state(self, uniform: Uniform) -> NestedTensor:
        """Returns initial states of episodes, a structure [B, ...].

        Args:
          uniform: Draws float64 [B, *shape]; see `Uniform`.
        """

    @abc.abstractmethod
    def step(
        self, state: NestedTensor, action: NestedTensor, uniform: Uniform
    ) -> tuple[NestedTensor, tf.Tensor, tf.Tensor]:
        """Computes one step of every environment.

        Args:
          state: Structure [B, ...] from `initial_state` or `step`.
          action: Structure [B, ...] of the action space's dtypes, within its bounds.
          uniform: Draws float64 [B, *shape]; see `Uniform`.

        Returns:
          The next states; the rewards, floating point [B]; and whether the next states are
          terminal, bool [B].
        """

    @abc.abstractmethod
    def observe(self, state: NestedTensor) -> NestedTensor:
        """Returns the observations of states, a structure [B, ...] of the space's dtypes."""


def fold_in(key: tf.Tensor, index: tf.Tensor | np.ndarray | int) -> tf.Tensor:
    """Derives a new key from a key and an index by SplitMix64, with the key as its state.

    Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014).

    Args:
      key: uint64 of any shape.
      index: Integers from 0, of a shape that broadcasts with that of `key`.

    Returns:
      uint64 of the common shape, output number `index` of the generator, counting from 0.
    """
    mixed = key + (tf.cast(index, tf.uint64) + _uint64(1)) * _uint64(_GAMMA)
    mixed = (mixed ^ _shift_right(mixed, 30)) * _uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ _shift_right(mixed, 27)) * _uint64(0x94D049BB133111EB)
    return mixed ^ _shift_right(mixed, 31)


class Uniform:
    """Draws uniform numbers from one stream per row of a batch; each call advances the streams.

    The streams advance while the graph is traced: inside of a `tf.while_loop`, every iteration
    draws the same numbers.
    """

    def __init__(self, keys: tf.Tensor):
        """Initializes the streams from keys, uint64 [B]."""
        self._keys, self._num_drawn = keys, 0

    def __call__(
        self, low: ArrayLike = 0.0, high: ArrayLike = 1.0, shape: tuple[int, ...] | None = None
    ) -> tf.Tensor:
        """Draws from [low, high).

        Args:
          low: Lower bound, a number or an array that broadcasts to `shape`.
          high: Upper bound, likewise.
          shape: Shape of one row's numbers; by default that of `low` and `high`.

        Returns:
          float64 [B, *shape].
        """
        shape = np.broadcast_shapes(np.shape(low), np.shape(high)) if shape is None else shape
        size = int(np.prod(shape))
        indices = np.arange(self._num_drawn, self._num_drawn + size)  # [size]
        bits = fold_in(self._keys[:, None], indices)  # uint64 [B, size]
        self._num_drawn += size
        # The upper 53 bits, as many as a float64 represents exactly.
        mantissa = tf.cast(_shift_right(bits, 11), tf.int64)
        fraction = tf.cast(mantissa, tf.float64) * 2.0**-53  # [B, size] in [0, 1)
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        return low + (high - low) * tf.reshape(fraction, [-1, *shape])


def _shift_right(values: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(values, _uint64(bits))


def _uint64(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint64)
