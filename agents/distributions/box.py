"""Conversion of action vectors to elements of a Box."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from gymnasium import spaces

from agents.spaces import bounds


def to_box(space: spaces.Box, action: tf.Tensor) -> tf.Tensor:
    """Casts, reshapes and clips action vectors to elements of a Box.

    Args:
      space: Box of floats, of any shape.
      action: Any float type, [..., A].

    Returns:
      [..., *space.shape] of the space's dtype; the lower bound for NaN.
    """
    low, high = bounds(space)  # [*space.shape]
    action = tf.cast(reshape_last(action, space.shape), space.dtype)  # [..., *space.shape]
    return tf.where(action >= low, tf.minimum(action, high), low)


def reshape_last(tensor: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """Reshapes [..., A] to [..., *shape]; at most one batch dimension may be unknown."""
    if len(shape) == 1:
        return tensor  # The usual case; saves an operation in every step.
    batch_shape = (-1 if size is None else size for size in tensor.shape[:-1])
    return tf.reshape(tensor, [*batch_shape, *shape])
