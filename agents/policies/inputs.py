"""Conversion of observations to network inputs, before normalization: a vector, and images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from gymnasium import spaces
from gymnasium.spaces.utils import flatdim

from agents.errors import UnsupportedSpaceError
from agents.spaces import Leaf, exceeds_float32, flatten, leaf_spaces, pack
from agents.types import NestedTensor, Space

MASK = "action_mask"

# Prefix of the inputs that only the value function gets.
CRITIC = "critic_"

NetworkInputs = dict[str, tf.Tensor]


@dataclass(frozen=True)
class Part:
    """Place of an observation's leaf in the network inputs.

    Attributes:
      name: Name of the input: `vector`, or that of an image.
      start: Index of its first number in the vector.
      shape: Its shape there, with numbers in one-hot form; for images that of the input.
    """

    name: str
    start: int
    shape: tuple[int, ...]


# Parts in the structure of an observation space: dictionaries, tuples, or one part.
Parts: TypeAlias = Any


class Inputs:
    """Converts observations to network inputs by name.

    `vector` is [..., O]: all numbers concatenated, discrete ones as one-hot vectors. It is float32,
    or float64 where a space has numbers that float32 would round before they are normalized. If
    images are kept, `image_0`, `image_1`, ... are uint8 [..., height, width, channels].
    `action_mask`, bool [..., number of actions], marks the valid actions. Inputs for the value
    function only are `critic_vector`, `critic_image_0` and so on.

    Attributes:
      acting_space: The observations that acting takes, without those of the critic only.
      shapes: Shape of each input of the policy for one observation, except for the mask; there may
        be no vector.
      parts: A `Part` for each leaf of the policy's observations, without the mask.
      value_shapes: Shape of each input of the value function, see `join`.
      value_parts: A `Part` for each leaf of the value function's observations.
      critic_size: Length of the vector that only the value function gets.
    """

    def __init__(
        self,
        space: Space,
        keep_images: bool = False,
        action_mask: bool = False,
        critic_keys: Sequence[str] = (),
    ):
        """Finds the images and numbers of a space.

        Args:
          space: Observation space of one environment.
          keep_images: Whether Boxes of uint8 with two or three dimensions are images; otherwise
            they are numbers like all others.
          action_mask: Whether the space is a Dict with an `action_mask`.
          critic_keys: Keys of the space, a Dict then, that only the value function gets.

        Raises:
          UnsupportedSpaceError: The space is not made of arrays, lacks the mask or a key, or has
            nothing else.
        """
        if action_mask and (not isinstance(space, spaces.Dict) or MASK not in space.spaces):
            raise UnsupportedSpaceError(
                f"expected a Dict space with an '{MASK}', got the observation space {space}."
            )
        self.acting_space: Space = space
        critic_space = spaces.Dict({})
        if critic_keys:
            _check_critic_keys(space, critic_keys)
            self.acting_space = _without(space, critic_keys)
            critic_space = _without(space, self.acting_space.spaces)
        self._has_mask = action_mask
        policy_space = _without(self.acting_space, [MASK]) if action_mask else self.acting_space
        self._policy = _Group(policy_space, keep_images)
        self._critic = _Group(critic_space, keep_images)
        self.shapes, self.parts = self._policy.shapes, self._policy.parts
        (self.critic_size,) = self._critic.shapes.get("vector", (0,))
        self.value_shapes, self.value_parts = self.shapes, self.parts
        self._joins = bool(critic_keys)
        if self._joins:
            self._join_shapes()

    @property
    def dtype(self) -> tf.DType:
        """Type of the vector."""
        return self._policy.dtype

    @property
    def critic_dtype(self) -> tf.DType:
        """Type of the vector that only the value function gets."""
        return self._critic.dtype

    def round_to_float32(self) -> None:
        """Makes vectors float32 from now on, for runtimes without float64."""
        self._policy.dtype = tf.float32

    def convert(self, observ: NestedTensor, critic: bool = False) -> NetworkInputs:
        """Converts observations.

        Args:
          observ: Structure of tensors [..., *leaf.shape], batch dimensions first.
          critic: Whether to include the inputs for the value function only.

        Returns:
          Inputs [..., *shape], see `shapes`.
        """
        inputs = self._policy.convert(observ)
        if self._has_mask:
            inputs[MASK] = tf.cast(observ[MASK], tf.bool)  # [..., number of actions]
        if critic:
            others = self._critic.convert(observ)
            inputs |= {f"{CRITIC}{name}": value for name, value in others.items()}
        return inputs

    def numbers(self, observ: NestedTensor) -> tf.Tensor | None:
        """All numbers of observations, also those of the critic only, [..., O + C]; None without any."""
        inputs = self.convert(observ, critic=True)
        vectors = [inputs[name] for name in ("vector", f"{CRITIC}vector") if name in inputs]
        if len(vectors) < 2:
            return vectors[0] if vectors else None
        return tf.concat([tf.cast(vector, tf.float64) for vector in vectors], axis=-1)

    def join(self, inputs: NetworkInputs) -> NetworkInputs:
        """Joins the policy's inputs with those of the critic only, so that torsos see usual names.

        The vectors become one, and the critic's images follow the policy's: an asymmetric
        actor-critic, as in Pinto et al., "Asymmetric Actor Critic for Image-Based Robot Learning"
        (2018, arXiv 1710.06542).

        Args:
          inputs: Normalized inputs [..., *shape].

        Returns:
          Inputs [..., *shape], see `value_shapes`.
        """
        if not self._joins:
            return inputs
        joined = {name: inputs[source] for name, source in self._image_sources.items()}
        if "vector" in self.value_shapes:
            vectors = [inputs[name] for name in ("vector", f"{CRITIC}vector") if name in inputs]
            joined["vector"] = tf.concat(vectors, axis=-1)
        return joined

    def _join_shapes(self) -> None:
        """Finds the shapes and parts of joined inputs."""
        images = {
            f"{prefix}{name}": shape
            for prefix, group in (("", self._policy), (CRITIC, self._critic))
            for name, shape in group.shapes.items()
            if name != "vector"
        }
        self._image_sources = {f"image_{index}": name for index, name in enumerate(images)}
        (start,) = self.shapes.get("vector", (0,))
        size = start + self.critic_size
        self.value_shapes = {"vector": (size,)} if size else {}
        self.value_shapes |= dict(zip(self._image_sources, images.values(), strict=True))
        names = {source: name for name, source in self._image_sources.items()}

        def move(part: Part) -> Part:
            name = names.get(f"{CRITIC}{part.name}", part.name)
            return replace(part, name=name, start=part.start + start)

        self.value_parts = {**self.parts, **tf.nest.map_structure(move, self._critic.parts)}


class _Group:
    """The vector and the images of a space."""

    def __init__(self, space: Space, keep_images: bool):
        self._space, self._leaves = space, leaf_spaces(space)
        self._parts: list[Part] = []
        images: dict[str, tuple[int, ...]] = {}
        size = 0
        for leaf in self._leaves:
            if keep_images and _is_image(leaf):
                name = f"image_{len(images)}"
                images[name] = _image_shape(leaf.shape)
                self._parts.append(Part(name, 0, images[name]))
                continue
            numbers = flatdim(leaf)
            is_array = isinstance(leaf, spaces.Box | spaces.MultiBinary) and leaf.shape
            self._parts.append(Part("vector", size, leaf.shape if is_array else (numbers,)))
            size += numbers
        vector: dict[str, tuple[int, ...]] = {"vector": (size,)} if size else {}
        self.shapes = vector | images
        self.parts: Parts = pack(space, self._parts)
        self.dtype = tf.float64 if any(map(exceeds_float32, self._leaves)) else tf.float32

    def convert(self, observ: NestedTensor) -> NetworkInputs:
        vectors: list[tf.Tensor] = []
        inputs: NetworkInputs = {}
        values = flatten(self._space, observ)
        for part, leaf, value in zip(self._parts, self._leaves, values, strict=True):
            if part.name == "vector":
                vectors.append(_to_vector(leaf, value, self.dtype))
            else:
                inputs[part.name] = _to_image(leaf, value)
        if "vector" in self.shapes:
            inputs["vector"] = vectors[0] if len(vectors) == 1 else tf.concat(vectors, axis=-1)
        return inputs


def _without(space: Space, keys: Iterable[str]) -> spaces.Dict:
    """A Dict space without some of its keys."""
    assert isinstance(space, spaces.Dict)
    left_out = set(keys)
    return spaces.Dict({key: one for key, one in space.spaces.items() if key not in left_out})


def _check_critic_keys(space: Space, critic_keys: Sequence[str]) -> None:
    keys = sorted(set(space.spaces) - {MASK}) if isinstance(space, spaces.Dict) else []
    unknown = [key for key in critic_keys if key not in keys]
    if unknown or set(keys) <= set(critic_keys):
        problem = f"the key '{unknown[0]}'" if unknown else "all keys"
        raise UnsupportedSpaceError(
            f"critic_keys: expected keys of a Dict space, got {problem} with the "
            f"observation space {space}.\nThe keys are {', '.join(keys) or 'none'}; the policy needs at "
            "least one of them."
        )


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
    if not _channels_first(space.shape):
        return value
    row = len(value.shape) - 3
    return tf.transpose(value, [*range(row), row + 1, row + 2, row])


def _to_vector(space: Leaf, value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Vectors [..., size] of a type from a leaf [..., *space.shape].

    At most one batch dimension may be unknown.
    """
    batch = [
        -1 if size is None else size for size in value.shape[: len(value.shape) - len(space.shape)]
    ]
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        # TensorFlow Lite and ONNX Runtime have no one-hot vectors of small integers.
        value = tf.cast(value, tf.int64) - np.asarray(space.start, np.int64)
    if isinstance(space, spaces.Discrete):
        return tf.one_hot(value, int(space.n), dtype=dtype)
    if isinstance(space, spaces.MultiDiscrete):
        flat = tf.reshape(value, [*batch, space.nvec.size])  # [..., A]
        sizes = np.ravel(space.nvec)
        hot = [tf.one_hot(flat[..., index], int(n), dtype=dtype) for index, n in enumerate(sizes)]
        return tf.concat(hot, axis=-1)
    return tf.reshape(tf.cast(value, dtype), [*batch, int(np.prod(space.shape))])
