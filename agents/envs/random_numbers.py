"""Random numbers that are functions of a key: the same in a batch of any size, compiled or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

_GAMMA = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio.


def fold_in(key: Any, number: Any) -> tf.Tensor:
    """Another key for every number: SplitMix64 (Steele, Lea and Flood, 2014), its state being `key`.

    Args:
      key: uint64, any shape.
      number: Integers from 0, of a shape that fits it.

    Returns:
      uint64 of the common shape: the generator's output after `number` others.
    """
    mixed = key + (tf.cast(number, tf.uint64) + _uint64(1)) * _uint64(_GAMMA)
    mixed = (mixed ^ _shift_right(mixed, 30)) * _uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ _shift_right(mixed, 27)) * _uint64(0x94D049BB133111EB)
    return mixed ^ _shift_right(mixed, 31)


class Uniform:
    """Draws for every row of a batch from a stream of its own; every call goes on in the streams.

    Going on happens as the graph is traced: inside of a `tf.while_loop` it would draw the same in every round.
    """

    def __init__(self, keys: tf.Tensor):
        """Begins the streams of `keys`, uint64 [B]."""
        self._keys, self._drawn = keys, 0

    def __call__(self, low: Any = 0.0, high: Any = 1.0, shape: tuple[int, ...] | None = None) -> tf.Tensor:
        """Draws from [low, high).

        Args:
          low: A number, or an array of numbers of a shape that fits `shape`.
          high: Likewise.
          shape: Of what one row gets; by default that of `low` and `high`.

        Returns:
          float64 [B, *shape].
        """
        shape = np.broadcast_shapes(np.shape(low), np.shape(high)) if shape is None else shape
        size = int(np.prod(shape))
        bits = fold_in(self._keys[:, None], np.arange(self._drawn, self._drawn + size))  # [B, size]
        self._drawn += size
        fraction = tf.cast(tf.cast(_shift_right(bits, 11), tf.int64), tf.float64) * 2.0**-53  # As many bits as fit.
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        return low + (high - low) * tf.reshape(fraction, [-1, *shape])


def _shift_right(values: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(values, _uint64(bits))


def _uint64(number: int) -> tf.Tensor:
    return tf.constant(number, tf.uint64)
