"""Observations as networks take them: one vector of numbers, and images."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.tools.errors import UnsupportedSpaceError
from agents.tools.spaces import flatten, leaf_spaces

MASK = "action_mask"


class Inputs:
    """Turns observations into a dictionary of what a network takes.

    `vector` is float32 [..., O]: all numbers side by side, those of discrete spaces as one-hot vectors. Where images
    are kept apart, `image_0`, `image_1`, ... are uint8 [..., height, width, channels]. `action_mask`, bool [..., number
    of actions], says which actions are valid, where observations tell.

    Attributes:
      shapes: Shape of each for one observation, without the mask; there may be no vector.
    """

    def __init__(self, space: spaces.Space, keep_images: bool = False, action_mask: bool = False):
        """Looks for images and numbers.

        Args:
          space: Observation space of one environment.
          keep_images: Whether Boxes of uint8 with two or three dimensions are images, and not numbers like others.
          action_mask: Whether the space is a Dict with an `action_mask`.

        Raises:
          UnsupportedSpaceError: A space that is not made of arrays, or one without the mask that was asked for.
        """
        self._space, self._mask = space, None
        if action_mask:
            if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
                raise UnsupportedSpaceError(
                    f"expected a Dict space with an '{MASK}', got the observation space {space}."
                )
            self._mask = MASK
            self._space = spaces.Dict({key: child for key, child in space.spaces.items() if key != MASK})
        leaves = leaf_spaces(self._space)
        self._images = [keep_images and _is_image(leaf) for leaf in leaves]
        size = sum(_count(leaf) for leaf, image in zip(leaves, self._images, strict=True) if not image)
        images = [_image_shape(leaf.shape) for leaf, image in zip(leaves, self._images, strict=True) if image]
        self.shapes: dict[str, tuple[int, ...]] = {"vector": (size,)} if size else {}
        self.shapes |= {f"image_{index}": shape for index, shape in enumerate(images)}

    def __call__(self, observ: Any) -> dict[str, tf.Tensor]:
        """Inputs [..., like in `shapes`] for a structure of tensors [..., leaf's shape], batch dimensions first."""
        numbers: list[tf.Tensor] = []
        images: list[tf.Tensor] = []
        leaves = zip(leaf_spaces(self._space), flatten(self._space, observ), self._images, strict=True)
        for leaf, value, image in leaves:
            (images if image else numbers).append(_image(leaf, value) if image else _numbers(leaf, value))
        inputs = {f"image_{index}": image for index, image in enumerate(images)}
        if "vector" in self.shapes:
            inputs["vector"] = numbers[0] if len(numbers) == 1 else tf.concat(numbers, axis=-1)
        if self._mask:
            inputs[MASK] = tf.cast(observ[self._mask], tf.bool)
        return inputs


def _is_image(space: Any) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height, width and channels, of a grey image or one whose channels come first: there are fewer than columns."""
    if len(shape) == 2:
        return (*shape, 1)
    return (*shape[1:], shape[0]) if _channels_first(shape) else shape


def _channels_first(shape: tuple[int, ...]) -> bool:
    return shape[0] < min(shape[1:])


def _image(space: Any, value: tf.Tensor) -> tf.Tensor:
    if len(space.shape) == 2:
        return value[..., None]
    batch = list(range(len(value.shape) - 3))
    row = len(batch)
    return tf.transpose(value, [*batch, row + 1, row + 2, row]) if _channels_first(space.shape) else value


def _count(space: Any) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    return int(np.prod(space.shape))


def _numbers(space: Any, value: tf.Tensor) -> tf.Tensor:
    batch = value.shape[: len(value.shape) - len(space.shape)]
    if isinstance(space, spaces.Discrete):
        return tf.one_hot(value - space.start, int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        flat = tf.reshape(value - space.start, [*batch, -1])
        hot = [tf.one_hot(flat[..., index], int(size)) for index, size in enumerate(np.ravel(space.nvec))]
        return tf.concat(hot, axis=-1)
    return tf.reshape(tf.cast(value, tf.float32), [*batch, int(np.prod(space.shape))])
