"""Torsos: functions of Keras tensors that map inputs to features.

Each takes the inputs by name (see `agents.policies.inputs`: `vector` [N, O], `image_0` [N, height,
width, channels], ...) and the configuration, and returns features [N, F]. The setting `network`
names one of these, or one of the user's as `my_module:my_function`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import keras

from agents.errors import UsageError
from agents.settings.entry_points import call, load_function

if TYPE_CHECKING:
    from agents.settings.config import Config

KerasInputs = dict[str, keras.KerasTensor]
Torso = Callable[[KerasInputs, "Config"], keras.KerasTensor]


def feed_forward(inputs: KerasInputs, config: Config) -> keras.KerasTensor:
    """Dense layers."""
    return _dense_layers(inputs["vector"], config)


def nature(inputs: KerasInputs, config: Config) -> keras.KerasTensor:
    """Convolutions of Mnih et al., 2015, followed by dense layers.

    "Human-level control through deep reinforcement learning", doi 10.1038/nature14236. The dense
    layers also see the vector, if there is one.
    """

    def convolve(image: keras.KerasTensor) -> keras.KerasTensor:
        for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            if min(image.shape[1:3]) < size:
                raise UsageError(
                    "network: images are too small for nature, which needs 36 x 36 pixels or more; "
                    "use impala"
                )
            layer = keras.layers.Conv2D(
                filters, size, stride, activation="relu", kernel_initializer=_orthogonal()
            )
            image = layer(image)
        return image

    return _dense_layers(_with_vector(inputs, convolve), config)


def impala(inputs: KerasInputs, config: Config) -> keras.KerasTensor:
    """Residual convolutions of Espeholt et al., 2018, for images of any size, then dense layers.

    "IMPALA", arXiv 1802.01561, figure 3. The dense layers also see the vector, if there is one.
    """

    def convolution(image: keras.KerasTensor, filters: int) -> keras.KerasTensor:
        layer = keras.layers.Conv2D(filters, 3, padding="same", kernel_initializer=_orthogonal())
        return layer(image)

    def convolve(image: keras.KerasTensor) -> keras.KerasTensor:
        for filters in (16, 32, 32):
            image = convolution(image, filters)
            image = keras.layers.MaxPooling2D(3, 2, padding="same")(image)
            for _ in range(2):
                residue = convolution(keras.ops.relu(image), filters)
                image = image + convolution(keras.ops.relu(residue), filters)
        return keras.ops.relu(image)

    return _dense_layers(_with_vector(inputs, convolve), config)


TORSOS: dict[str, Torso] = {"feed_forward": feed_forward, "nature": nature, "impala": impala}


def find_torso(name: str) -> Torso:
    """The torso that the setting `network` names.

    A function of users raises UsageError if it fails or returns something else than features.

    Raises:
      UsageError: There is no such module or function.
    """
    if name in TORSOS:
        return TORSOS[name]
    torso: Torso = load_function(name, "network")

    def checked_torso(inputs: KerasInputs, config: Config) -> keras.KerasTensor:
        place = f"network '{name}'"
        features = call(torso, place, inputs, config)
        if not isinstance(features, keras.KerasTensor) or len(features.shape) != 2:
            got = getattr(features, "shape", type(features).__name__)
            raise UsageError(f"{place}: expected a Keras tensor of features [N, F], got {got}")
        return features

    return checked_torso


def _dense_layers(features: keras.KerasTensor, config: Config) -> keras.KerasTensor:
    if not config.layers:
        return keras.layers.Identity()(features)  # Keras for Python 3.10 needs one layer.
    for index, units in enumerate(config.layers):
        dense = keras.layers.Dense(
            units, config.activation, kernel_initializer=_orthogonal(), name=f"hidden_{index}"
        )
        features = dense(features)
    return features


def _with_vector(
    inputs: KerasInputs, convolve: Callable[[keras.KerasTensor], keras.KerasTensor]
) -> keras.KerasTensor:
    """Convolves every image and concatenates the results with the vector."""
    images = [value for name, value in inputs.items() if name != "vector"]
    if not images:
        raise UsageError(
            "network: expected images for a convolutional network, got an observation without any\n"
            "images are Boxes of uint8 with two or three dimensions; use feed_forward otherwise"
        )
    scaled = [keras.layers.Rescaling(1 / 255)(image) for image in images]
    features = [keras.layers.Flatten()(convolve(image)) for image in scaled]
    features += [inputs["vector"]] if "vector" in inputs else []
    return features[0] if len(features) == 1 else keras.layers.Concatenate()(features)


def _orthogonal() -> keras.initializers.Initializer:
    """Gain sqrt(2), as in Huang et al., "The 37 Implementation Details of PPO" (2022), detail 2."""
    return keras.initializers.Orthogonal(math.sqrt(2))
