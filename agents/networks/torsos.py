"""Torsos: from inputs to features, as functions of Keras tensors.

Each takes the inputs by name (see `agents.networks.inputs`: `vector` [N, O], `image_0` [N, height, width, channels],
...) and the configuration, and returns features [N, F]. Those of a user are named `my_module:my_function` in the
configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import keras

from agents.named import load_function
from agents.tools.errors import UsageError

if TYPE_CHECKING:
    from agents.config import Config

Torso = Callable[[dict[str, keras.KerasTensor], "Config"], keras.KerasTensor]


def feed_forward(inputs: dict[str, keras.KerasTensor], config: Config) -> keras.KerasTensor:
    """Dense layers."""
    return _dense_layers(inputs["vector"], config)


def nature(inputs: dict[str, keras.KerasTensor], config: Config) -> keras.KerasTensor:
    """The convolutions of Mnih et al., "Human-level control through deep reinforcement learning" (Nature, 2015).

    Dense layers follow, which see the vector as well, if there is one.
    """

    def convolve(image: keras.KerasTensor) -> keras.KerasTensor:
        for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            if min(image.shape[1:3]) < size:
                raise UsageError("network: images are too small for nature, which takes 36 x 36 and more; use impala")
            image = keras.layers.Conv2D(filters, size, stride, activation="relu", kernel_initializer=_orthogonal())(
                image
            )
        return image

    return _dense_layers(_beside_the_vector(inputs, convolve), config)


def impala(inputs: dict[str, keras.KerasTensor], config: Config) -> keras.KerasTensor:
    """The residual network of Espeholt et al., "IMPALA" (2018, arXiv 1802.01561, figure 3), for images of any size.

    Dense layers follow, which see the vector as well, if there is one.
    """

    def convolution(image: keras.KerasTensor, filters: int) -> keras.KerasTensor:
        return keras.layers.Conv2D(filters, 3, padding="same", kernel_initializer=_orthogonal())(image)

    def convolve(image: keras.KerasTensor) -> keras.KerasTensor:
        for filters in (16, 32, 32):
            image = convolution(image, filters)
            image = keras.layers.MaxPooling2D(3, 2, padding="same")(image)
            for _ in range(2):
                residue = convolution(keras.ops.relu(image), filters)
                image = image + convolution(keras.ops.relu(residue), filters)
        return keras.ops.relu(image)

    return _dense_layers(_beside_the_vector(inputs, convolve), config)


TORSOS: dict[str, Torso] = {"feed_forward": feed_forward, "nature": nature, "impala": impala}


def find_torso(name: str) -> Torso:
    """The torso that a configuration names.

    Raises:
      UsageError: There is no such module or function.
    """
    return TORSOS[name] if name in TORSOS else load_function(name, "network")


def _dense_layers(features: keras.KerasTensor, config: Config) -> keras.KerasTensor:
    for index, units in enumerate(config.layers):
        dense = keras.layers.Dense(units, config.activation, kernel_initializer=_orthogonal(), name=f"hidden_{index}")
        features = dense(features)
    return features


def _beside_the_vector(
    inputs: dict[str, keras.KerasTensor], convolve: Callable[[keras.KerasTensor], keras.KerasTensor]
) -> keras.KerasTensor:
    """Convolves every image, and lays the results beside the vector."""
    images = [value for name, value in inputs.items() if name != "vector"]
    if not images:
        raise UsageError(
            "network: a convolutional network is for images, and there are none in the observations\n"
            "images are Boxes of uint8 with two or three dimensions; use feed_forward for other ones"
        )
    features = [keras.layers.Flatten()(convolve(keras.layers.Rescaling(1 / 255)(image))) for image in images]
    features += [inputs["vector"]] if "vector" in inputs else []
    return features[0] if len(features) == 1 else keras.layers.Concatenate()(features)


def _orthogonal() -> keras.initializers.Initializer:
    """As in Huang et al., "The 37 Implementation Details of PPO" (2022), detail 2."""
    return keras.initializers.Orthogonal(math.sqrt(2))
