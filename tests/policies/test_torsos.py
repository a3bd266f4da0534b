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
from agents.policies.inputs import Inputs
from agents.policies.policy import Policy
from agents.policies.torsos import TORSOS
from agents.settings.config import NETWORKS
from agents.settings.config_file import load_config
from agents.spaces import flatten, pack


def make(shapes, **settings):
    config = load_config("default", **settings)
    boxes = {
        name: spaces.Box(-1, 1, shape) if name == "vector" else spaces.Box(0, 255, shape, np.uint8)
        for name, shape in shapes.items()
    }
    inputs = Inputs(spaces.Dict(boxes), keep_images=True)
    return ActorCritic(inputs, make_action_distribution(spaces.Discrete(4), config), config)


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


def nature(image, layers):
    for stride in (4, 2, 1):
        image = np.maximum(convolve(image, *next(layers), stride), 0)
    return image


def impala(image, layers):
    for _ in range(3):
        image = pool(same(image, *next(layers)))
        for _ in range(2):
            residue = same(np.maximum(image, 0), *next(layers))
            image = image + same(np.maximum(residue, 0), *next(layers))
    return np.maximum(image, 0)


@pytest.mark.parametrize(
    "torso, shape, channels",
    # Espeholt et al., 2018, figure 3: sections of 16, 32 and 32 channels, of five layers each.
    [(nature, (36, 40, 2), [32, 64, 64]), (impala, (9, 12, 2), [16] * 5 + [32] * 10)],
)
def test_convolutional_networks_with_a_vector_equal_plain_numpy(torso, shape, channels):
    settings = {"network": torso.__name__, "layers": (7,), "activation": "relu"}
    network = make({"image_0": shape, "vector": (3,)}, **settings)
    for variable in network.variables().values():
        variable.assign(variable + 0.01)
    weights = {name: variable.numpy() for name, variable in network.variables().items()}
    names = [f"conv2d_{index}" if index else "conv2d" for index in range(len(channels))]
    layers = [
        [weights[f"value/{name}/{kind}"] for kind in ("kernel", "bias")]
        for name in (*names, "hidden_0", "output")
    ]
    assert [len(bias) for _, bias in layers[:-2]] == channels
    generator = np.random.default_rng(0)
    image, vector = generator.integers(0, 256, [1, *shape]), generator.normal(size=[1, 3])
    features = torso(image[0] / 255, iter(layers)).ravel()
    (kernel, bias), (output_kernel, output_bias) = layers[-2:]
    hidden = np.maximum(np.concatenate([features, vector[0]]) @ kernel + bias, 0)
    inputs = {"image_0": tf.constant(image, tf.uint8), "vector": tf.constant(vector, tf.float32)}
    np.testing.assert_allclose(
        network.value(inputs, {}), hidden @ output_kernel + output_bias, rtol=1e-4, atol=1e-5
    )


def test_nature_has_the_published_sizes_for_atari_images():
    weights = make(
        {"image_0": (84, 84, 4)}, network="nature", layers=(512,), shared_torso=True
    ).variables()
    assert weights["policy/hidden_0/kernel"].shape == (3136, 512)
    num_weights = sum(int(tf.size(weight)) for weight in weights.values())
    assert num_weights == 1_686_693  # For 4 actions and a value.


@pytest.fixture
def module():
    """A user's module with a network."""
    module = types.ModuleType("my_networks")

    def doubled(inputs, config):
        return keras.layers.Dense(config.layers[0], name="mine")(2 * inputs["vector"])

    module.doubled = doubled
    module.rows = lambda inputs, config: keras.layers.Reshape((1, 3))(inputs["vector"])
    module.columns = lambda inputs, config: keras.ops.transpose(inputs["vector"])
    module.nothing = lambda inputs, config: None
    module.look_up = lambda inputs, config: module.parts(inputs)
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
        network.value({"vector": tf.constant(vector)}, {}), expected[:, 0], rtol=1e-5, atol=1e-6
    )
    again = make({"vector": (3,)}, network="my_networks:doubled", layers=(5,)).variables()
    np.testing.assert_array_equal(again["policy/mine/kernel"], weights["policy/mine/kernel"])


@pytest.mark.parametrize(
    ("name", "got"),
    [("rows", r"\(None, 1, 3\)"), ("columns", r"\(3, None\)"), ("nothing", "NoneType")],
)
def test_a_function_of_the_user_returns_vectors_of_features(module, name, got):
    with pytest.raises(UsageError, match=rf"expected a Keras tensor of features .*, got {got}"):
        make({"vector": (3,)}, network=f"my_networks:{name}")


SHOP = spaces.Dict(
    stock=spaces.Box(-np.inf, np.inf, (2,), np.float32),
    door=spaces.Discrete(3, start=1),
    clients=spaces.Box(-np.inf, np.inf, (4, 2), np.float64),
    price=spaces.Box(0, 9, (), np.float32),
    shelves=spaces.MultiDiscrete([2, 3]),
    lights=spaces.MultiBinary(2),
    camera=spaces.Box(0, 255, (6, 7, 3), np.uint8),
    vector=spaces.Box(-1, 1, (1,), np.float32),
    robot=spaces.Dict(arm=spaces.Box(-1, 1, (3,)), eye=spaces.Box(0, 255, (5, 5), np.uint8)),
    pair=spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (1,))]),
    action_mask=spaces.MultiBinary(2),
)
# The parts of the vector in alphabetical order, as (start, end), by the keys that lead to them.
SLICES = {
    ("clients",): (0, 8),
    ("door",): (8, 11),
    ("lights",): (11, 13),
    ("pair", 0): (13, 15),
    ("pair", 1): (15, 16),
    ("price",): (16, 17),
    ("robot", "arm"): (17, 20),
    ("shelves",): (20, 25),
    ("stock",): (25, 27),
}


def observe(space, num=5):
    rows = [flatten(space, space.sample()) for _ in range(num)]
    return pack(space, [tf.constant(np.stack(column)) for column in zip(*rows, strict=True)])


def find(inputs, path):
    for key in path:
        inputs = inputs[key]
    return inputs


def test_networks_look_up_parts_of_observations_by_key(module):
    shapes = {}

    def parts(inputs):
        found = {path: find(inputs, path) for path in SLICES}
        shapes.update({path: part.shape[1:] for path, part in found.items()})
        return keras.layers.Concatenate()([keras.layers.Flatten()(x) for x in found.values()])

    module.parts = parts
    config = load_config("default", network="my_networks:look_up", action_mask=True)
    policy = Policy(SHOP, spaces.Discrete(2), config)
    policy.update_normalizers(policy.preprocess(observe(SHOP)))
    inputs = policy.preprocess(observe(SHOP))  # Discrete parts are one-hot vectors.
    weights = policy.network.variables()
    kernel, bias = weights["value/output/kernel"], weights["value/output/bias"]
    vector = np.concatenate([inputs["vector"][:, slice(*ends)] for ends in SLICES.values()], axis=1)
    np.testing.assert_allclose(
        policy.network.value(inputs, {}), (vector @ kernel + bias)[:, 0], rtol=1e-4, atol=1e-5
    )
    lengths = {path: (end - start,) for path, (start, end) in SLICES.items()}
    assert shapes == {**lengths, ("clients",): (4, 2)}


def test_images_are_looked_up_by_key_and_joined_inputs_come_first(module):
    def parts(inputs):
        assert list(inputs) == ["vector", "image_0", "image_1"]
        assert inputs["camera"] is inputs["image_0"]
        assert inputs["robot"]["eye"] is inputs["image_1"]
        assert inputs["vector"].shape == (None, 28)  # Not that of the key.
        assert list(inputs["robot"]) == ["arm", "eye"]
        assert [part.shape[1] for part in inputs["pair"].values()] == [2, 1]
        assert "stock" in inputs and "action_mask" not in inputs and "camera" in inputs
        assert inputs.get("stock").shape == (None, 2) and inputs.get("stok") is None
        return inputs["vector"]

    module.parts = parts
    config = load_config("default", network="my_networks:look_up", action_mask=True)
    Policy(SHOP, spaces.Discrete(2), config)


def test_only_the_value_function_looks_up_what_is_for_the_critic(module):
    space = spaces.Dict(
        {key: SHOP[key] for key in ("camera", "clients", "stock")},
        eye=spaces.Box(0, 255, (5, 5), np.uint8),
        belief=spaces.Box(-1, 1, (3,), np.float32),
    )
    features = {"clients": 8, "belief": 3, "camera": 126, "eye": 25}

    def parts(inputs):
        known = [key for key in features if key in inputs]
        return keras.layers.Concatenate()(
            [keras.layers.Flatten()(keras.ops.cast(inputs[key], "float32")) for key in known]
        )

    module.parts = parts
    config = load_config(
        "default", network="my_networks:look_up", critic_keys=["belief", "eye"], layers=[]
    )
    policy = Policy(space, spaces.Discrete(2), config)
    weights = policy.network.variables()
    assert weights["policy/output/kernel"].shape == [8 + 126, 2]
    observ = observe(space)
    inputs = policy.normalize(policy.inputs.convert(observ, critic=True))
    flat = {key: np.reshape(observ[key], [5, -1]).astype(np.float32) for key in features}
    expected = np.concatenate(list(flat.values()), axis=1) @ weights["value/output/kernel"]
    np.testing.assert_allclose(policy.network.value(inputs, {}), expected[:, 0], rtol=1e-4)


@pytest.mark.parametrize(
    "space, path, message",
    [
        (SHOP, ["stok"], "no input 'stok'; did you mean 'stock'.*vector, image_0, .*, stock"),
        (SHOP, ["action_mask"], "no input 'action_mask'"),
        (SHOP, ["robot", "leg"], "no input 'leg'.*the inputs are arm, eye"),
        (SHOP, ["pair", 2], "no input 2.*the inputs are 0, 1"),
        (SHOP["stock"], ["stock"], "no input 'stock'.*the inputs are vector"),
        (SHOP["pair"], [2], "no input 2.*the inputs are vector, 0, 1"),
    ],
    ids=str,
)
def test_an_unknown_key_lists_those_that_exist(module, space, path, message):
    module.parts = lambda inputs: find(inputs, path)
    has_mask = isinstance(space, spaces.Dict)
    config = load_config("default", network="my_networks:look_up", action_mask=has_mask)
    with pytest.raises(UsageError, match=f"(?s){message}") as caught:
        Policy(space, spaces.Discrete(2), config)
    assert str(caught.value).count("\n") <= 2


@pytest.mark.parametrize(
    "name, message",
    [
        ("no_such_module:network", "needs the module 'no_such_module'"),
        ("my_networks:tripled", "'my_networks' has no 'tripled'"),
    ],
)
def test_an_unknown_network_is_named(module, name, message):
    with pytest.raises(UsageError, match=message):
        make({"vector": (3,)}, network=name)


@pytest.mark.parametrize(
    "shapes, message",
    [
        ({"vector": (3,)}, "got an observation without images"),
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
