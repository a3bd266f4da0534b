"""Observations as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.tools.spaces import flatten, leaf_spaces


def feature_count(space: spaces.Space) -> int:
    """Length of the vector that `features` makes of an observation, O."""
    return sum(_leaf_count(leaf) for leaf in leaf_spaces(space))


def features(space: spaces.Space, observ: Any) -> tf.Tensor:
    """One vector for every observation: numbers as they are, one-hot vectors for discrete ones, side by side.

    Args:
      space: Observation space of one environment.
      observ: Structure of tensors [..., leaf's shape] with at least one batch dimension.

    Returns:
      float32 [..., O].
    """
    parts = [_leaf(leaf, value) for leaf, value in zip(leaf_spaces(space), flatten(space, observ), strict=True)]
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)


def _leaf_count(space: Any) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    return int(np.prod(space.shape))


def _leaf(space: Any, value: tf.Tensor) -> tf.Tensor:
    batch = value.shape[: len(value.shape) - len(space.shape)]
    if isinstance(space, spaces.Discrete):
        return tf.one_hot(value - space.start, int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        flat = tf.reshape(value - space.start, [*batch, -1])
        hot = [tf.one_hot(flat[..., index], int(size)) for index, size in enumerate(np.ravel(space.nvec))]
        return tf.concat(hot, axis=-1)
    return tf.reshape(tf.cast(value, tf.float32), [*batch, int(np.prod(space.shape))])
