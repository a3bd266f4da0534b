"""Torsos: functions of Keras tensors that map inputs to features.

Each takes the inputs by name (see `agents.policies.inputs`: `vector` [N, O], `image_0` [N, height,
width, channels], ...; parts of observations by their keys) and the configuration, and returns
features [N, F]. The setting `network` names one of these, or one of the user's as
`my_module:my_function`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import keras

from agents.errors import UsageError
from agents.policies.inputs import Part, Parts
from agents.policies.network_check import check_network
from agents.settings.entry_points import call, load_function
from agents.suggestion import did_you_mean

if TYPE_CHECKING:
    from agents.settings.config import Config

KerasInputs = dict[str, keras.KerasTensor]
Torso = Callable[[KerasInputs, "Config"], keras.KerasTensor]


class NamedInputs(dict[Any, keras.KerasTensor]):
    """Inputs by name, and parts of observations by key.

    Parts have the structure of the observation space. Those of the whole observation are cut
    out of the vector when they are looked up; iteration does not show them. Unknown keys raise
    UsageError.
    """

    def __init__(self, items: Mapping[Any, Any], parts: Parts = None):
        """Stores the inputs, and where they hold the parts of an observation."""
        super().__init__(items)
        self._parts = _by_key(parts)

    def __missing__(self, key: str | int) -> Any:
        if key not in self._parts:
            known = [*self, *self._parts]
            raise UsageError(
                f"network: there is no input {key!r}{did_you_mean(str(key), map(str, known))}\n"
                f"the inputs are {', '.join(map(str, known))}"
            )
        return self._find(self._parts[key])

    def _find(self, part: Parts) -> Any:
        if not isinstance(part, Part):
            return NamedInputs({key: self._find(one) for key, one in _by_key(part).items()})
        tensor = self[part.name]  # [N, ...]
        if part.name != "vector":
            return tensor
        vector = tensor[:, part.start : part.start + math.prod(part.shape)]
        return vector if len(part.shape) == 1 else keras.ops.reshape(vector, [-1, *part.shape])

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._parts

    def get(self, key: Any, default: Any = None) -> Any:
        """Returns an input or a part of the observation, or the default."""
        return self[key] if key in self else default


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


def make_torso(inputs: KerasInputs, parts: Parts, config: Config, name: str) -> keras.Model:
    """Builds the torso that the setting `network` names.

    Args:
      inputs: The inputs by name, [N, ...].
      parts: Where they hold the parts of an observation.
      config: The experiment's settings.
      name: Name of the model.

    Raises:
      UsageError: The network does not exist, does not fit the inputs, or has layers that can't be
        trained here; the message names them.
    """
    place, named = f"network '{config.network}'", NamedInputs(inputs, parts)
    if config.network in TORSOS:
        features = TORSOS[config.network](named, config)
    else:
        features = call(load_function(config.network, "network"), place, named, config)
        got = getattr(features, "shape", type(features).__name__)
        is_tensor = isinstance(features, keras.KerasTensor)
        if not is_tensor or len(got) != 2 or got[1] is None:
            raise UsageError(f"{place}: expected a Keras tensor of features [N, F], got {got}")
    for tensor in inputs.values():
        keras.layers.Identity()(tensor)  # Keras for Python 3.10 refuses an input without any use.
    model: keras.Model = call(functools.partial(keras.Model, name=name), place, inputs, features)
    if config.network not in TORSOS:
        call(check_network, place, model, place)
    return model


def _dense_layers(features: keras.KerasTensor, config: Config) -> keras.KerasTensor:
    if not config.layers:
        return keras.layers.Identity()(features)  # Keras for Python 3.10 needs one layer.
    normalizes = config.layer_norm == "all"
    for index, units in enumerate(config.layers):
        dense = keras.layers.Dense(
            units,
            None if normalizes else config.activation,
            kernel_initializer=_orthogonal(),
            name=f"hidden_{index}",
        )
        features = dense(features)
        if normalizes:
            features = keras.layers.LayerNormalization(name=f"layer_norm_{index}")(features)
            features = keras.layers.Activation(config.activation)(features)
    return features


def _with_vector(
    inputs: KerasInputs, convolve: Callable[[keras.KerasTensor], keras.KerasTensor]
) -> keras.KerasTensor:
    """Convolves every image and concatenates the results with the vector."""
    images = [value for name, value in inputs.items() if name != "vector"]
    if not images:
        raise UsageError(
            "network: a convolutional network needs images, got an observation without images\n"
            "images are uint8 Boxes with two or three dimensions; use feed_forward for other observations"
        )
    scaled = [keras.layers.Rescaling(1 / 255)(image) for image in images]
    features = [keras.layers.Flatten()(convolve(image)) for image in scaled]
    features += [inputs["vector"]] if "vector" in inputs else []
    return features[0] if len(features) == 1 else keras.layers.Concatenate()(features)


def _orthogonal() -> keras.initializers.Initializer:
    """Gain sqrt(2), as in Huang et al., "The 37 Implementation Details of PPO" (2022), detail 2."""
    return keras.initializers.Orthogonal(math.sqrt(2))


def _by_key(parts: Parts) -> Mapping[Any, Parts]:
    """Returns the parts of a Dict or Tuple space by key or index; a single one has none."""
    if isinstance(parts, tuple):
        return dict(enumerate(parts))
    return {} if parts is None or isinstance(parts, Part) else parts
