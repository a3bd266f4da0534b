"""One branch of an actor-critic network: a torso and an optional recurrent cell."""

from __future__ import annotations

import functools
import math

import keras
import tensorflow as tf

from agents.policies.inputs import NetworkInputs, Parts
from agents.policies.recurrent import Recurrent
from agents.policies.recurrent_cells import State
from agents.policies.torsos import make_torso
from agents.policies.weights import numbered
from agents.runtime.keras_settings import default_settings
from agents.settings.config import Config

# Images of a rollout that pass through a torso at a time: what its layers compute of them takes up to
# 100 kB each.
_IMAGES_AT_A_TIME = 512

# Name of the layer that follows a branch.
OUTPUT = "output"


class Branch:
    """A torso, followed by a recurrent cell or none.

    Attributes:
      name: Name of its weights, `policy` or `value`.
      size: Size of its features, F.
      memory: The recurrent cell, or None.
      layers: The layers with weights, by name.
    """

    def __init__(
        self, name: str, shapes: dict[str, tuple[int, ...]], config: Config, parts: Parts = None
    ):
        """Creates the weights.

        Args:
          name: Name of its weights.
          shapes: Shapes of the inputs, by name.
          config: The experiment's settings.
          parts: Where the inputs hold the parts of an observation; by default unknown.

        Raises:
          UsageError: The network does not exist, or does not fit the inputs.
        """
        self.name, self._shapes = name, shapes
        inputs = {
            key: keras.Input(shape, dtype="float32" if key == "vector" else "uint8", name=key)
            for key, shape in shapes.items()
        }
        precision = config.precision
        with default_settings("mixed_bfloat16" if precision == "bfloat16" else precision):
            torso = make_torso(inputs, parts, config, name)
        # Acts and learns alike, so that probabilities before and after an update are comparable.
        self._torso = functools.partial(torso, training=False)
        self.size = int(torso.output.shape[-1])
        self.memory: Recurrent | None = None
        weighted = [layer for layer in torso.layers if layer.weights]
        self.layers = numbered(weighted, taken=(OUTPUT, config.recurrent))
        if config.recurrent != "none":
            self.memory = Recurrent(config.recurrent, self.size, config.recurrent_units, name)
            self.size = config.recurrent_units
            self.layers[config.recurrent] = self.memory.cell

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
