"""One branch of an actor-critic network: a torso and an optional recurrent cell."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator

import keras
import tensorflow as tf

from agents.policies.inputs import NetworkInputs
from agents.policies.recurrent import Recurrent
from agents.policies.recurrent_cells import State
from agents.policies.torsos import find_torso
from agents.settings.config import Config

# Images of a rollout that pass through a torso at a time: what its layers compute of them takes up to
# 100 kB each.
_IMAGES_AT_A_TIME = 512


class Branch:
    """A torso, followed by a recurrent cell or none.

    Attributes:
      name: Name of its weights, `policy` or `value`.
      size: Size of its features, F.
      memory: The recurrent cell, or None.
      layers: The layers with weights, by name.
    """

    def __init__(self, name: str, shapes: dict[str, tuple[int, ...]], config: Config):
        """Creates the weights, for inputs of the given shapes.

        Raises:
          UsageError: The network does not exist, or does not fit the inputs.
        """
        self.name, self._shapes = name, shapes
        inputs = {
            key: keras.Input(shape, dtype="float32" if key == "vector" else "uint8", name=key)
            for key, shape in shapes.items()
        }
        with _precision(config.precision):
            torso = find_torso(config.network)(inputs, config)
            self._torso = keras.Model(inputs, torso, name=name)
        self.size = int(self._torso.output.shape[-1])
        self.memory: Recurrent | None = None
        weighted = [layer for layer in self._torso.layers if layer.weights]
        self.layers: dict[str, keras.layers.Layer | Recurrent] = dict(_by_name(weighted))
        if config.recurrent != "none":
            self.memory = Recurrent(config.recurrent, self.size, config.recurrent_units, name)
            self.size = config.recurrent_units
            self.layers[config.recurrent] = self.memory

    def step(self, inputs: NetworkInputs, state: State) -> tuple[tf.Tensor, State]:
        """Features [N, F] of inputs [N, ...], and the next recurrent state."""
        features = self._torso({name: inputs[name] for name in self._shapes})
        features = tf.cast(features, tf.float32)  # [N, F]
        return self.memory.step(features, state) if self.memory else (features, ())

    def unroll(
        self, inputs: NetworkInputs, state: State, is_first: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        """Features [L, N, F] of inputs [L, N, ...], and recurrent states after each step."""
        flat = {
            name: tf.reshape(inputs[name], [-1, *shape]) for name, shape in self._shapes.items()
        }  # [L * N, ...]
        features = self._features(flat, math.prod(is_first.shape))  # [L * N, F]
        features = tf.reshape(features, [*is_first.shape, features.shape[-1]])  # [L, N, F]
        return self.memory.unroll(features, state, is_first) if self.memory else (features, ())

    def _features(self, inputs: NetworkInputs, number: int) -> tf.Tensor:
        """Features [number, F] of a number of inputs; of many images, in equal parts."""
        size = number if set(self._shapes) == {"vector"} else equal_part(number, _IMAGES_AT_A_TIME)
        if size == number:
            return tf.cast(self._torso(inputs), tf.float32)  # [number, F]
        parts = {
            name: tf.reshape(inputs[name], [-1, size, *shape])
            for name, shape in self._shapes.items()
        }  # [number / size, size, ...]
        features = tf.map_fn(
            lambda part: tf.cast(self._torso(part), tf.float32),
            parts,
            parallel_iterations=1,
            fn_output_signature=tf.float32,
        )  # [number / size, size, F]
        return tf.reshape(features, [number, features.shape[-1]])


def swap_first_axes(tensor: tf.Tensor) -> tf.Tensor:
    """From [L, N, ...] to [N, L, ...], or back."""
    return tf.transpose(tensor, [1, 0, *range(2, len(tensor.shape))])


def equal_part(number: int, limit: int) -> int:
    """The largest divisor of a number up to a limit."""
    return max(size for size in range(1, min(number, limit) + 1) if number % size == 0)


def _by_name(layers: list[keras.layers.Layer]) -> dict[str, keras.layers.Layer]:
    """Layers by name, numbered within the network.

    Keras numbers layers through the whole process, and checkpoints hold their names.
    """
    named: dict[str, keras.layers.Layer] = {}
    for layer in layers:
        kind = re.sub(r"_\d+$", "", layer.name)
        if kind.replace("_", "") != type(layer).__name__.lower():
            named[layer.name] = layer
            continue
        index = sum(isinstance(other, type(layer)) for other in named.values())
        named[f"{kind}_{index}" if index else kind] = layer
    return named


@contextlib.contextmanager
def _precision(precision: str) -> Iterator[None]:
    """Lets new layers compute in a type, with weights of float32."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if precision == "bfloat16" else precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
