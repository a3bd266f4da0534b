"""Flat actions as elements of a Box."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from gymnasium import spaces

from agents.tools.spaces import bounds


def to_box(space: spaces.Box, action: tf.Tensor) -> tf.Tensor:
    """Actions [..., A] of any float type, clipped: [..., *space.shape] of the space's type; its lower bound for NaN."""
    low, high = bounds(space)
    action = tf.cast(reshape_last(action, space.shape), space.dtype)
    return tf.where(action >= low, tf.minimum(action, high), low)


def reshape_last(tensor: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """[..., A] as [..., *shape]; at most one batch dimension may be unknown."""
    if len(shape) == 1:
        return tensor  # The usual case, and one operation less in every step.
    return tf.reshape(tensor, [*(-1 if size is None else size for size in tensor.shape[:-1]), *shape])
