import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from keras import layers

from agents.errors import UsageError
from agents.policies.policy import Policy
from agents.settings.config_file import load_config

BOX = spaces.Box(-1, 1, (3,), np.float32)
SHARED = layers.Dense(4, name="mine")


class Noise(layers.Layer):
    """Adds random numbers in every call, with a generator or without one."""

    def __init__(self, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.seed = seed

    def call(self, x):
        return x + keras.random.normal(keras.ops.shape(x), seed=self.seed)


class Doubled(layers.Layer):
    def call(self, x, training=False):
        return 2 * x if training else x


class Count(layers.Layer):
    """Adds the number of its calls."""

    def build(self, shape):
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)
        super().build(shape)

    def call(self, x):
        self.calls.assign_add(1.0)
        return x + self.calls


class Idle(layers.Layer):
    """Has a weight that it does not use."""

    def build(self, shape):
        self.idle = self.add_weight(shape=(3,), name="idle")
        super().build(shape)

    def call(self, x):
        return 2 * x


class Outside(layers.Layer):
    """Computes in numpy."""

    def call(self, x):
        return x * float(np.mean(np.asarray(x)))

    def compute_output_shape(self, shape):
        return shape


class Either(layers.Layer):
    """Has two layers, of which it uses one in each call."""

    def build(self, shape):
        self.one, self.other = layers.Dense(4), layers.Dense(4)
        self.one.build(shape)
        self.other.build(shape)
        super().build(shape)

    def call(self, x):
        return keras.ops.cond(keras.ops.sum(x) > 0, lambda: self.one(x), lambda: self.other(x))


class Python(layers.Layer):
    """Calls Python in the graph."""

    def call(self, x):
        return tf.ensure_shape(tf.numpy_function(np.sin, [x], tf.float32), x.shape)

    def compute_output_shape(self, shape):
        return shape


class Scan(layers.Layer):
    """Computes sequences of unlimited length."""

    def call(self, x):
        def add(total, number):
            return total + number, total

        return keras.ops.scan(add, x[:, 0], keras.ops.transpose(x))[0][:, None]


def attention(x, **kwargs):
    x = layers.Reshape((3, 1))(x)
    return layers.Flatten()(layers.MultiHeadAttention(2, 3, **kwargs)(x, x))


def with_lambda(x):
    factor = tf.Variable(2.0)
    return layers.Lambda(lambda y: y * factor)(x)


REFUSED = {
    "dropout": (
        lambda x: keras.Sequential([layers.Dropout(0.5, name="drop")])(x),
        "'drop' computes something else in training",
    ),
    "dropout of attention": (
        lambda x: attention(x, dropout=0.1),
        "'dropout.*' computes something else in training",
    ),
    "noise in training": (layers.GaussianNoise(0.1), "'gaussian_noise.*' computes something else"),
    "normalized weights": (
        lambda x: layers.SpectralNormalization(layers.Dense(4, name="sn"))(x),
        "'sn' computes something else in training",
    ),
    "other outputs": (Doubled(), "a layer computes something else in training"),
    "random": (Noise(), "a layer computes something else in each call"),
    "random with a generator": (
        lambda x: Noise(keras.random.SeedGenerator(1), name="jitter", trainable=False)(x),
        "'jitter' computes something else in each call",
    ),
    "state": (lambda x: Count(name="count")(x), "'count' computes something else in each call"),
    "layer of a module": (
        lambda x: layers.TimeDistributed(SHARED)(layers.Reshape((1, 3))(x))[:, 0],
        "the layer 'mine' is a part of another network",
    ),
    "half precision": (
        lambda x: layers.Dense(4, dtype="bfloat16")(x),
        "float32 .*, got dense/kernel of bfloat16",
    ),
    "float16": (
        lambda x: layers.Dense(4, dtype="mixed_float16")(x),
        "got dense/kernel of float32 in float16",
    ),
    "constraint": (
        lambda x: layers.Dense(4, kernel_constraint="non_neg")(x),
        "dense/kernel has a constraint",
    ),
    "regularizer": (
        lambda x: layers.Dense(4, kernel_regularizer="l2")(x),
        "losses, such as regularizers",
    ),
    "activity regularizer": (
        lambda x: layers.Dense(4, activity_regularizer="l2")(x),
        "losses, such as regularizers",
    ),
    "variable": (lambda x: x * keras.Variable(2.0, name="scale"), "'scale.*' is no weight"),
    "variable in a function": (with_lambda, "'Variable.*' is no weight of a layer"),
    "unused": (lambda x: Idle()(x), "do not depend on 1 of the trained weights: idle/idle"),
    "cut": (
        lambda x: keras.ops.stop_gradient(layers.Dense(3)(x)),
        "do not depend on 2 of the trained weights: dense/kernel, dense/bias",
    ),
    "mean over the batch": (
        lambda x: x - keras.ops.mean(x, axis=0, keepdims=True),
        "depend on the others in the batch",
    ),
    "softmax over the batch": (
        lambda x: keras.ops.softmax(layers.Dense(3)(x), axis=0),
        "depend on the others in the batch",
    ),
    "outside of graphs": (lambda x: layers.Dense(3)(Outside()(x)), "Cannot convert a symbolic"),
    "name of no graph": (layers.Dense(3, name="my layer"), "'my layer' is not a valid scope name"),
    "no operation of XLA": (
        lambda x: layers.Dense(3)(Python()(x)),
        "XLA can't compile it .*PyFunc",
    ),
    "unlimited loop": (
        lambda x: Scan()(layers.Dense(3)(x)),
        "XLA can't compile it .*\nuse .* loops with maximum_iterations",
    ),
    "equal names": (
        lambda x: layers.Dense(3, name="a")(layers.Dense(3, name="a")(x)),
        '"a" is used 2 times',
    ),
}


def frozen_backbone(x):
    """A part that was trained elsewhere, with everything that belongs to that."""
    backbone = keras.Sequential(
        [
            keras.Input([3]),
            layers.Dense(4, kernel_regularizer="l2", kernel_constraint="non_neg"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            Idle(),
            layers.Dense(4, dtype="float16"),
        ]
    )
    backbone.trainable = False
    return layers.Dense(3)(backbone(x))


ACCEPTED = {
    "attention": attention,
    "batch normalization": lambda x: layers.BatchNormalization()(layers.Dense(4)(x)),
    "no dropout": lambda x: layers.Dropout(0.0)(layers.Dense(4)(x)),
    "recurrent": lambda x: layers.Bidirectional(layers.GRU(3))(layers.Reshape((3, 1))(x)),
    "own precision": lambda x: layers.Dense(4, dtype="mixed_bfloat16")(x),
    "frozen": frozen_backbone,
    "one of two": lambda x: Either()(x),
    "twice": lambda x: (layer := layers.Dense(3))(layer(x)),
    "embedding": lambda x: layers.Embedding(3, 4)(keras.ops.argmax(x, -1)),
    "nothing to train": lambda x: layers.Dense(3, trainable=False)(x),
}


@pytest.fixture
def make(monkeypatch):
    """Makes a policy with a network of a user's module."""

    def make(function, **settings):
        module = types.ModuleType("my_networks")
        module.network = lambda inputs, config: function(inputs["vector"])
        monkeypatch.setitem(sys.modules, "my_networks", module)
        return Policy(BOX, BOX, load_config("default", network="my_networks:network", **settings))

    return make


@pytest.mark.parametrize("function, message", REFUSED.values(), ids=REFUSED)
def test_what_would_not_be_trained_as_written_is_refused(make, function, message):
    with pytest.raises(UsageError, match=message) as caught:
        make(function)
    assert str(caught.value).startswith("network 'my_networks:network'")
    assert str(caught.value).count("\n") <= 2


@pytest.mark.parametrize("function", ACCEPTED.values(), ids=ACCEPTED)
def test_other_networks_keep_their_weights_in_the_check(make, function):
    one, again = (make(function, seed=3) for _ in range(2))
    weights = one.network.variables()
    assert len(weights) == len({id(weight) for weight in weights.values()})
    for name, weight in again.network.variables().items():
        np.testing.assert_array_equal(weights[name], weight, err_msg=name)
    # They act as Keras' layers do in inference.
    for policy in (one, again):
        sample, _, _ = policy.act(tf.ones([2, 3]), deterministic=True)
        assert np.isfinite(sample).all()


def test_statistics_of_batch_normalization_stay_and_act_as_in_inference(make):
    policy = make(
        lambda x: layers.BatchNormalization(moving_mean_initializer="ones", epsilon=0.0)(
            x, training=True
        ),
        normalize_observ=False,
    )
    variables = policy.network.variables()
    inputs = {"vector": tf.constant([[3.0, 1.0, 0.0]])}
    value = policy.network.value(inputs, {})
    kernel = variables["value/output/kernel"].numpy()
    np.testing.assert_allclose(value, ([2.0, 0.0, -1.0] @ kernel), rtol=1e-5)
    np.testing.assert_array_equal(variables["value/batch_normalization/moving_mean"], 1)
