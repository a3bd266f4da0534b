import keras
import pytest
from keras import layers

from agents.keras_settings import default_settings
from agents.policies.weights import numbered, weights_by_path

DENSE = ["kernel", "bias"]


class Pair(layers.Layer):
    """Two layers with default names, one named after the layer, and weights without names."""

    def __init__(self):
        super().__init__()
        self.one, self.other = layers.Dense(3), layers.Dense(3)
        self.inner = layers.Dense(3, name=f"{self.name}_inner")

    def build(self, shape):
        self.scale = self.add_weight(shape=(3,))
        self.shift = self.add_weight(shape=(3,))
        super().build(shape)

    def call(self, x):
        return self.inner(self.other(self.one(x))) * self.scale + self.shift


class Twins(layers.Layer):
    """Two layers and two weights that have the same name, and a layer that it uses twice."""

    def __init__(self):
        super().__init__()
        self.layers = [layers.Dense(3, name="same") for _ in range(2)]
        self.first = self.again = layers.Dense(3, use_bias=False)

    def build(self, shape):
        self.all = [self.add_weight(shape=(3,), name="offset") for _ in range(2)]
        super().build(shape)

    def call(self, x):
        for layer in (*self.layers, self.first, self.again):
            x = layer(x)
        return x + sum(self.all)


class Prefix(layers.Layer):
    """Puts its default name into the names of its weight and of layers inside of others."""

    def __init__(self):
        super().__init__()
        inner = layers.Dense(3, use_bias=False, name=f"{self.name}_inner")
        self.model = keras.Sequential([inner])

    def build(self, shape):
        self.scale = self.add_weight(shape=(3,), name=f"{self.name}_scale")
        super().build(shape)

    def call(self, x):
        return self.model(x) * self.scale


def nested_model():
    inputs = keras.Input([3])
    outputs = layers.Dense(3)(layers.BatchNormalization()(inputs))
    return keras.Model(inputs, outputs)


def paths(name, *weights):
    return [f"{name}/{weight}" for weight in weights]


NETWORKS = {
    "layers of one class": (
        lambda: [layers.Dense(3), layers.Dense(3, name="mine"), layers.Dense(3, use_bias=False)],
        [*paths("dense", *DENSE), *paths("mine", *DENSE), "dense_2/kernel"],
    ),
    "sequential": (
        lambda: [keras.Sequential([layers.Dense(3), layers.Dense(3)])],
        [*paths("sequential/dense", *DENSE), *paths("sequential/dense_1", *DENSE)],
    ),
    "nested model": (
        lambda: [nested_model(), layers.Dense(3)],
        [
            *paths("functional/batch_normalization", "gamma", "beta"),
            *paths("functional/batch_normalization", "moving_mean", "moving_variance"),
            *paths("functional/dense", *DENSE),
            *paths("dense", *DENSE),
        ],
    ),
    "subclasses": (
        lambda: [Pair(), Pair()],
        [
            path
            for name, numbers in (("pair", ("", "_1")), ("pair_1", ("_2", "_3")))
            for path in (
                *paths(name, *(f"variable{number}" for number in numbers)),
                *paths(f"{name}/dense", *DENSE),
                *paths(f"{name}/dense_1", *DENSE),
                *paths(f"{name}/{name}_inner", *DENSE),
            )
        ],
    ),
    "names of outer layers": (
        lambda: [Prefix(), Prefix()],
        [
            *paths("prefix", "prefix_scale", "sequential/prefix_inner/kernel"),
            *paths("prefix_1", "prefix_1_scale", "sequential/prefix_1_inner/kernel"),
        ],
    ),
    "names of other layers": (
        lambda: [
            (first := layers.Dense(3, use_bias=False)),
            layers.Dense(3, use_bias=False, name=f"{first.name}_out"),
        ],
        ["dense/kernel", "dense_out/kernel"],
    ),
    "equal names": (
        lambda: [Twins()],
        [
            *paths("twins", "offset", "offset_1"),
            *paths("twins/same", *DENSE),
            *paths("twins/same_1", *DENSE),
            "twins/dense_2/kernel",
        ],
    ),
    "wrappers": (
        lambda: [
            layers.Reshape((3, 1)),
            layers.Bidirectional(layers.SimpleRNN(3, use_bias=False, return_sequences=True)),
            layers.TimeDistributed(layers.Dense(3, use_bias=False)),
            layers.Flatten(),
        ],
        [
            *paths(
                "bidirectional/forward_simple_rnn/simple_rnn_cell", "kernel", "recurrent_kernel"
            ),
            *paths(
                "bidirectional/backward_simple_rnn/simple_rnn_cell", "kernel", "recurrent_kernel"
            ),
            "time_distributed/dense/kernel",
        ],
    ),
    "names of others": (
        lambda: [layers.Dense(3, name="output"), layers.Dense(3, name="conv2d", use_bias=False)],
        [*paths("output_1", *DENSE), "conv2d/kernel"],
    ),
}


def build(make):
    outputs = inputs = keras.Input([3])
    for layer in make():
        outputs = layer(outputs)
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("make, expected", NETWORKS.values(), ids=NETWORKS)
def test_each_weight_has_one_path_that_does_not_depend_on_the_process(make, expected):
    for _ in range(2):
        layers.Dense(3)  # Keras continues its numbers outside.
        with default_settings():
            model = build(make)
        weighted = [layer for layer in model.layers if layer.weights]
        weights = weights_by_path(numbered(weighted, taken=["output"]))
        assert list(weights) == expected
        assert {id(weight.variable) for weight in weights.values()} == set(map(id, model.weights))
        assert len(weights) == len(model.weights)


def test_paths_do_not_depend_on_when_a_copied_model_was_made():
    known = []
    for _ in range(2):
        model = nested_model()  # Of a module, among any other layers.
        with default_settings():
            copy = keras.models.clone_model(model)
        known.append(list(weights_by_path(numbered([copy]))))
    assert known[0] == known[1]
    assert "functional/dense/kernel" in known[0]


def test_weights_are_trained_unless_a_layer_around_them_is_not():
    inner = nested_model()
    outer = keras.Sequential([keras.Input([3]), inner, layers.Dense(3, name="last")])
    inner.trainable = False
    weights = weights_by_path({"outer": outer})
    trained = {path for path, weight in weights.items() if weight.trainable}
    assert trained == {"outer/last/kernel", "outer/last/bias"}
    assert {weight.layer for weight in weights.values()} == {*inner.layers[1:], outer.layers[-1]}
    inner.trainable = True
    weights = weights_by_path({"x": inner})
    fixed = {weight.variable.name for weight in weights.values() if not weight.trainable}
    assert fixed == {"moving_mean", "moving_variance"}
