"""Networks as users write them, named in the setting `network`."""

import keras
import numpy as np
from gymnasium import spaces

SPACE = spaces.Dict(
    entities=spaces.Box(-np.inf, np.inf, (4, 3), np.float32), gear=spaces.Discrete(3)
)
# Of all weights of `attentive`; tests change it between training and loading.
scale = 1.0


def initial():
    """Initial values, none of which is zero."""
    return keras.initializers.RandomUniform(-0.4 * scale, 0.5 * scale)


def attentive(inputs, config):
    """Attention over entities, a layer that is not trained, and a nested model."""
    settings = {"kernel_initializer": initial(), "bias_initializer": initial()}
    tokens = keras.layers.Dense(6, "tanh", **settings)(inputs["entities"])  # [N, 4, 6]
    tokens = keras.layers.MultiHeadAttention(2, 3, **settings)(tokens, tokens)
    fixed = keras.layers.Dense(2, trainable=False, name="fixed", **settings)(inputs["gear"])
    x = keras.layers.Concatenate()([keras.layers.Flatten()(tokens), fixed])
    inner = keras.Input(x.shape[1:])
    y = keras.layers.Dense(5, "tanh", **settings)(inner)
    y = keras.layers.BatchNormalization(
        beta_initializer=initial(),
        gamma_initializer=initial(),
        moving_mean_initializer=initial(),
        moving_variance_initializer=keras.initializers.Constant(0.5 * scale),
    )(y)
    y = keras.layers.Dense(4, "tanh", **settings)(y)
    return keras.Model(inner, y)(x)


def adapted(inputs, config):
    """Statistics of data, with an integer count of them."""
    statistics = keras.layers.Normalization()
    statistics.adapt(scale * np.linspace(1, 9, 24, dtype=np.float32).reshape(2, 12))
    return keras.layers.Dense(4)(statistics(keras.layers.Flatten()(inputs["entities"])))


class Shift(keras.layers.Layer):
    """Adds a tensor that is no weight."""

    def build(self, shape):
        self.shift = keras.ops.linspace(-1.0, 1.0, shape[-1])
        super().build(shape)

    def call(self, x):
        return x + self.shift


def shifted(inputs, config):
    """A constant made by a layer."""
    return keras.layers.Dense(4)(Shift()(inputs["vector"]))
