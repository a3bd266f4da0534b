"""Conversion of observations to network inputs, before normalization: a vector, and images."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError
from agents.spaces import Leaf, flatten, leaf_spaces
from agents.types import NestedTensor, Space

MASK = "action_mask"

NetworkInputs = dict[str, tf.Tensor]


class Inputs:
    """Converts observations to network inputs by name.

    `vector` is float32 [..., O]: all numbers concatenated, discrete ones as one-hot vectors. If
    images are kept, `image_0`, `image_1`, ... are uint8 [..., height, width, channels].
    `action_mask`, bool [..., number of actions], marks the valid actions.

    Attributes:
      shapes: Shape of each input for one observation, except for the mask; there may be no vector.
    """

    def __init__(self, space: Space, keep_images: bool = False, action_mask: bool = False):
        """Finds the images and numbers of a space.

        Args:
          space: Observation space of one environment.
          keep_images: Whether Boxes of uint8 with two or three dimensions are images; otherwise
            they are numbers like all others.
          action_mask: Whether the space is a Dict with an `action_mask`.

        Raises:
          UnsupportedSpaceError: The space is not made of arrays, or lacks the mask.
        """
        self._space, self._has_mask = space, action_mask
        if action_mask:
            if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
                raise UnsupportedSpaceError(
                    f"expected a Dict space with an '{MASK}', got the observation space {space}."
                )
            others = {key: child for key, child in space.spaces.items() if key != MASK}
            self._space = spaces.Dict(others)
        leaves = leaf_spaces(self._space)
        self._images = [keep_images and _is_image(leaf) for leaf in leaves]
        self.shapes = _input_shapes(leaves, self._images)

    def convert(self, observ: NestedTensor) -> NetworkInputs:
        """Converts observations.

        Args:
          observ: Structure of tensors [..., *leaf.shape], batch dimensions first.

        Returns:
          Inputs [..., *shape], shaped as `shapes` says.
        """
        vectors: list[tf.Tensor] = []
        images: list[tf.Tensor] = []
        values = flatten(self._space, observ)
        for leaf, value, image in zip(leaf_spaces(self._space), values, self._images, strict=True):
            if image:
                images.append(_to_image(leaf, value))
            else:
                vectors.append(_to_vector(leaf, value))
        inputs = {f"image_{index}": image for index, image in enumerate(images)}
        if "vector" in self.shapes:
            inputs["vector"] = vectors[0] if len(vectors) == 1 else tf.concat(vectors, axis=-1)
        if self._has_mask:
            inputs[MASK] = tf.cast(observ[MASK], tf.bool)  # [..., number of actions]
        return inputs


def _input_shapes(leaves: list[Leaf], is_image: list[bool]) -> dict[str, tuple[int, ...]]:
    pairs = list(zip(leaves, is_image, strict=True))
    size = sum(_vector_size(leaf) for leaf, image in pairs if not image)
    images = [_image_shape(leaf.shape) for leaf, image in pairs if image]
    vector: dict[str, tuple[int, ...]] = {"vector": (size,)} if size else {}
    return vector | {f"image_{index}": shape for index, shape in enumerate(images)}


def _is_image(space: Leaf) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height, width and channels of an image, which may be gray or have its channels first."""
    if len(shape) == 2:
        return (*shape, 1)
    return (*shape[1:], shape[0]) if _channels_first(shape) else shape


def _channels_first(shape: tuple[int, ...]) -> bool:
    return shape[0] < min(shape[1:])  # There are fewer channels than rows and columns.


def _to_image(space: Leaf, value: tf.Tensor) -> tf.Tensor:
    """Images [..., height, width, channels] from a leaf [..., *space.shape]."""
    if len(space.shape) == 2:
        return value[..., None]
    batch = list(range(len(value.shape) - 3))
    row = len(batch)
    if not _channels_first(space.shape):
        return value
    return tf.transpose(value, [*batch, row + 1, row + 2, row])


def _vector_size(space: Leaf) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    return int(np.prod(space.shape))


def _to_vector(space: Leaf, value: tf.Tensor) -> tf.Tensor:
    """Vectors, float32 [..., size], from a leaf [..., *space.shape].

    At most one batch dimension may be unknown.
    """
    batch = [
        -1 if size is None else size for size in value.shape[: len(value.shape) - len(space.shape)]
    ]
    if isinstance(space, spaces.Discrete):
        return tf.one_hot(value - space.start, int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        flat = tf.reshape(value - space.start, [*batch, space.nvec.size])  # [..., A]
        sizes = np.ravel(space.nvec)
        hot = [tf.one_hot(flat[..., index], int(size)) for index, size in enumerate(sizes)]
        return tf.concat(hot, axis=-1)
    return tf.reshape(tf.cast(value, tf.float32), [*batch, int(np.prod(space.shape))])
