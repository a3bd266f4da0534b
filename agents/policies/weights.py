"""Weights of layers, by their path in a network."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import keras

from agents.keras_settings import sublayers


class Weight(NamedTuple):
    """A weight of a network.

    Attributes:
      variable: The variable.
      layer: The layer that it belongs to, the innermost one.
      trainable: Whether it and all layers around it are trainable.
    """

    variable: keras.Variable
    layer: keras.layers.Layer
    trainable: bool


def weights_by_path(layers: Mapping[str, keras.layers.Layer]) -> dict[str, Weight]:
    """Returns each weight once, by the first path that leads to it.

    Paths consist of names of layers, outermost first, and of the weight, such as
    `encoder/dense_1/kernel`. Default names are numbered in each layer, see `numbered`: a process
    may have made other layers before.

    Args:
      layers: Built layers, by name.
    """
    weights: dict[str, Weight] = {}
    seen: set[int] = set()

    def visit(path: str, layer: keras.layers.Layer, trainable: bool) -> None:
        trainable = trainable and layer.trainable
        children = [child for child in sublayers(layer) if child.weights]
        inside = {id(weight) for child in children for weight in child.weights}
        own = [weight for weight in layer.weights if id(weight) not in inside]
        for name, weight in zip(_unique(weight.name for weight in own), own, strict=True):
            if id(weight) not in seen:
                seen.add(id(weight))
                is_trained = trainable and weight.trainable
                weights[f"{path}/{name}"] = Weight(weight, layer, is_trained)
        for name, child in numbered(children).items():
            visit(f"{path}/{name}", child, trainable)

    for name, layer in layers.items():
        visit(name, layer, True)
    return weights


def numbered(
    layers: Sequence[keras.layers.Layer], taken: Iterable[str] = ()
) -> dict[str, keras.layers.Layer]:
    """Returns the layers of a network or layer by name; default names are numbered in their order.

    Args:
      layers: Layers, in order.
      taken: Names of others.
    """
    names: list[str] = []
    for index, layer in enumerate(layers):
        kind = re.sub(r"_\d+$", "", layer.name)
        is_default = kind.replace("_", "") == type(layer).__name__.lower()
        number = sum(isinstance(other, type(layer)) for other in layers[:index])
        names.append((f"{kind}_{number}" if number else kind) if is_default else layer.name)
    return dict(zip(_unique(names, taken), layers, strict=True))


def _unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Returns names; duplicates get a number at their end."""
    unique: list[str] = []
    reserved = set(taken)
    for name in names:
        candidates = itertools.chain([name], (f"{name}_{index}" for index in itertools.count(1)))
        unique.append(next(one for one in candidates if one not in reserved))
        reserved.add(unique[-1])
    return unique
