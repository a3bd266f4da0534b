import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.factory import make_action_distribution
from agents.errors import UsageError
from agents.policies.actor_critic import ActorCritic
from agents.policies.torsos import TORSOS, find_torso
from agents.settings.config_file import load_config
from agents.settings.consistency import NETWORKS


def make(shapes, **settings):
    config = load_config("default", **settings)
    distribution = make_action_distribution(spaces.Discrete(4), config)
    return ActorCritic(shapes, distribution, config)


def convolve(image, kernel, bias, stride):
    """A convolution without padding by a plain loop, [height, width, channels]."""
    size = kernel.shape[0]
    offsets = [range(0, side - size + 1, stride) for side in image.shape[:2]]
    rows = [
        [np.tensordot(image[i : i + size, j : j + size], kernel, 3) + bias for j in offsets[1]]
        for i in offsets[0]
    ]
    return np.array(rows)


def same(image, kernel, bias):
    """A 3 x 3 convolution whose result is as large as the image, by a plain loop."""
    return convolve(np.pad(image, ((1, 1), (1, 1), (0, 0))), kernel, bias, 1)


def pool(image):
    """The maximum of every second 3 x 3 square, by a plain loop; edges are not counted."""
    half = [-(-side // 2) for side in image.shape[:2]]
    starts = [
        2 * np.arange(h) - (2 * (h - 1) + 3 - side) // 2
        for h, side in zip(half, image.shape[:2], strict=True)
    ]
    rows = [
        [image[max(i, 0) : i + 3, max(j, 0) : j + 3].max(axis=(0, 1)) for j in starts[1]]
        for i in starts[0]
    ]
    return np.array(rows)


def test_impala_with_a_vector_equals_plain_numpy():
    shapes = {"image_0": (9, 12, 2), "vector": (3,)}
    network = make(shapes, network="impala", layers=(7,), activation="relu")
    for variable in network.variables().values():
        variable.assign(variable + 0.01)
    weights = {name: variable.numpy() for name, variable in network.variables().items()}
    layers = iter([""] + [f"_{index}" for index in range(1, 15)])
    channels = []

    def convolution(image):
        name = f"value/conv2d{next(layers)}"
        channels.append(weights[f"{name}/kernel"].shape)
        return same(image, weights[f"{name}/kernel"], weights[f"{name}/bias"])

    generator = np.random.default_rng(0)
    image, vector = generator.integers(0, 256, [1, 9, 12, 2]), generator.normal(size=[1, 3])
    features = image[0] / 255
    for _ in range(3):
        features = pool(convolution(features))
        for _ in range(2):
            features = features + convolution(np.maximum(convolution(np.maximum(features, 0)), 0))
    features = np.concatenate([np.maximum(features, 0).ravel(), vector[0]])
    hidden = np.maximum(
        features @ weights["value/hidden_0/kernel"] + weights["value/hidden_0/bias"], 0
    )
    expected = hidden @ weights["value/output/kernel"] + weights["value/output/bias"]
    inputs = {"image_0": tf.constant(image, tf.uint8), "vector": tf.constant(vector, tf.float32)}
    np.testing.assert_allclose(network.value(inputs, {}), expected, rtol=1e-4)
    # Espeholt et al., 2018, figure 3: sections of 16, 32 and 32 channels, of five layers each.
    assert [shape[-1] for shape in channels] == [16] * 5 + [32] * 10
    assert all(shape[:2] == (3, 3) for shape in channels)


def test_nature_with_a_vector_equals_plain_numpy():
    network = make(
        {"image_0": (36, 40, 2), "vector": (3,)}, network="nature", layers=(7,), activation="relu"
    )
    weights = {name: variable.numpy() for name, variable in network.variables().items()}
    generator = np.random.default_rng(0)
    image, vector = generator.integers(0, 256, [1, 36, 40, 2]), generator.normal(size=[1, 3])
    inputs = {"image_0": tf.constant(image, tf.uint8), "vector": tf.constant(vector, tf.float32)}
    features = image[0] / 255
    for name, stride in (("conv2d", 4), ("conv2d_1", 2), ("conv2d_2", 1)):
        kernel, bias = (value for key, value in weights.items() if key.startswith(f"value/{name}/"))
        features = np.maximum(convolve(features, kernel, bias, stride), 0)
    features = np.concatenate([features.ravel(), vector[0]])
    hidden = np.maximum(
        features @ weights["value/hidden_0/kernel"] + weights["value/hidden_0/bias"], 0
    )
    expected = hidden @ weights["value/output/kernel"] + weights["value/output/bias"]
    np.testing.assert_allclose(network.value(inputs, {}), expected, rtol=1e-4, atol=1e-5)


def test_nature_has_the_published_sizes_for_atari_images():
    weights = make(
        {"image_0": (84, 84, 4)}, network="nature", layers=(512,), shared_torso=True
    ).variables()
    assert weights["policy/hidden_0/kernel"].shape == (3136, 512)
    num_weights = sum(int(tf.size(weight)) for weight in weights.values())
    assert num_weights == 1_686_693  # For 4 actions and a value.


def test_impala_takes_images_of_any_size():
    network = make({"image_0": (7, 7, 3)}, network="impala", layers=(16,), activation="relu")
    kernels = [
        name
        for name in network.variables()
        if name.startswith("value/conv") and name.endswith("kernel")
    ]
    assert len(kernels) == 15  # Three sections of one, and of two blocks of two.
    images = np.random.default_rng(0).integers(0, 256, [3, 7, 7, 3])
    values = network.value({"image_0": tf.constant(images, tf.uint8)}, {}).numpy()
    assert np.isfinite(values).all()
    assert len(set(values)) == 3


@pytest.fixture
def module():
    """A user's module with a network."""
    module = types.ModuleType("my_networks")

    def doubled(inputs, config):
        return keras.layers.Dense(config.layers[0], name="mine")(2 * inputs["vector"])

    module.doubled = doubled
    module.rows = lambda inputs, config: keras.layers.Reshape((1, 3))(inputs["vector"])
    module.nothing = lambda inputs, config: None
    sys.modules["my_networks"] = module
    yield module
    del sys.modules["my_networks"]


def test_a_network_may_be_a_function_of_the_user(module):
    network = make({"vector": (3,)}, network="my_networks:doubled", layers=(5,))
    weights = {name: variable.numpy() for name, variable in network.variables().items()}
    vector = np.ones([1, 3], np.float32)
    hidden = 2 * vector @ weights["value/mine/kernel"]
    expected = hidden @ weights["value/output/kernel"]
    np.testing.assert_allclose(
        network.value({"vector": tf.constant(vector)}, {}), expected[:, 0], rtol=1e-5
    )
    again = make({"vector": (3,)}, network="my_networks:doubled", layers=(5,)).variables()
    np.testing.assert_array_equal(again["policy/mine/kernel"], weights["policy/mine/kernel"])


@pytest.mark.parametrize(("name", "got"), [("rows", r"\(None, 1, 3\)"), ("nothing", "NoneType")])
def test_a_function_of_the_user_returns_vectors_of_features(module, name, got):
    with pytest.raises(UsageError, match=rf"expected a Keras tensor of features .*, got {got}"):
        make({"vector": (3,)}, network=f"my_networks:{name}")


@pytest.mark.parametrize(
    "name, message",
    [
        ("no_such_module:network", "needs the module 'no_such_module'"),
        ("my_networks:tripled", "'my_networks' has no 'tripled'"),
    ],
)
def test_an_unknown_network_is_named(module, name, message):
    with pytest.raises(UsageError, match=message):
        find_torso(name)


@pytest.mark.parametrize(
    "shapes, message",
    [
        ({"vector": (3,)}, "got an observation without any"),
        ({"image_0": (7, 7, 3)}, "too small for nature"),
    ],
)
def test_observations_that_do_not_fit_raise(shapes, message):
    with pytest.raises(UsageError, match=message):
        make(shapes, network="nature")


def test_settings_accept_all_networks():
    assert tuple(TORSOS) == NETWORKS
    with pytest.raises(UsageError, match="unknown network 'natur'; did you mean 'nature'"):
        load_config("default", network="natur")
