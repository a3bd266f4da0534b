"""Weights of layers, by their path in a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import keras

Named = TypeVar("Named", keras.layers.Layer, keras.Variable)


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
    `encoder/dense_1/kernel`. They are the same in every process; see `numbered`.

    Args:
      layers: Built layers, by name.
    """
    weights: dict[str, Weight] = {}
    seen: set[int] = set()

    def visit(path: str, layer: keras.layers.Layer, trainable: bool) -> None:
        trainable = trainable and layer.trainable
        children = _children(layer)
        inside = {id(weight) for child in children for weight in child.weights}
        own = [weight for weight in layer.weights if id(weight) not in inside]
        for name, weight in numbered(own).items():
            if id(weight) not in seen:
                seen.add(id(weight))
                is_trained = trainable and weight.trainable
                weights[f"{path}/{name}"] = Weight(weight, layer, is_trained)
        for name, child in numbered(children, layer).items():
            visit(f"{path}/{name}", child, trainable)

    for name, layer in layers.items():
        visit(name, layer, True)
    return weights


def numbered(
    items: Sequence[Named], parent: keras.layers.Layer | None = None, taken: Iterable[str] = ()
) -> dict[str, Named]:
    """Returns layers or weights by name; default names and equal names get numbers of their own.

    Keras numbers default names through the whole process, and checkpoints hold names.

    Args:
      items: Layers or weights, in order.
      parent: The layer around them, whose name their names may contain.
      taken: Names of others.
    """
    named: dict[str, Named] = {}
    reserved = set(taken)
    for item in items:
        name = item.name.removeprefix(f"{parent.name}_") if parent else item.name
        kind = _default_kind(name, type(item).__name__, is_nested=parent is not None)
        index = sum(isinstance(other, type(item)) for other in named.values()) if kind else 0
        name = kind or name
        while (unique := f"{name}_{index}" if index else name) in reserved:
            index += 1
        reserved.add(unique)
        named[unique] = item
    return named


def _default_kind(name: str, class_name: str, is_nested: bool) -> str:
    """A default name without its number, such as `dense`; empty for names that users chose.

    Inside of layers it may have a prefix, such as `forward_gru` in Bidirectional.
    """
    expected = class_name.replace("_", "").lower()
    for kind in (name, re.sub(r"_\d+$", "", name)):
        plain = kind.replace("_", "")
        if plain == expected or (is_nested and plain.endswith(expected)):
            return kind
    return ""


def _children(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """The layers with weights that a layer consists of."""
    children: list[keras.layers.Layer] = layer._flatten_layers(include_self=False, recursive=False)
    return [child for child in children if child.weights]
