import keras
import numpy as np
import pytest
import tensorflow as tf

from agents.errors import UsageError
from agents.policies.branch import Branch, equal_part, swap_first_axes
from agents.settings.config_file import load_config

VECTOR = {"vector": (3,)}


def make(shapes=VECTOR, name="policy", **settings):
    return Branch(name, shapes, load_config("default", **settings))


def inputs_of(*shape):
    return {"vector": tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)}


def test_features_of_steps_equal_plain_numpy():
    branch = make(layers=(5, 4))
    inputs = inputs_of(7, 3)
    features, state = branch.step(inputs, ())
    expected = inputs["vector"].numpy()
    for name in ("hidden_0", "hidden_1"):
        kernel, bias = branch.layers[name].get_weights()
        expected = np.tanh(expected @ kernel + bias)
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)
    assert (state, branch.size, branch.memory, branch.name) == ((), 4, None, "policy")


def test_features_of_sequences_are_those_of_their_steps():
    branch = make(layers=(5, 4))
    inputs = inputs_of(6, 2, 3)  # [L, N, O]
    features, states = branch.unroll(inputs, (), tf.zeros([6, 2], tf.bool))
    assert (features.shape, states) == ([6, 2, 4], ())
    for step in range(6):
        expected, _ = branch.step({"vector": inputs["vector"][step]}, ())
        np.testing.assert_allclose(features[step], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_recurrent_cell_follows_the_torso(kind):
    branch = make(layers=(4,), recurrent=kind, recurrent_units=5)
    assert branch.size == 5
    assert list(branch.layers) == ["hidden_0", kind]
    assert branch.layers[kind] is branch.memory.cell
    inputs, start = inputs_of(2, 3), branch.memory.zero_state(2)
    kernel, bias = branch.layers["hidden_0"].get_weights()
    torso = tf.tanh(inputs["vector"] @ kernel + bias)  # [N, F]
    for actual, expected in zip(
        tf.nest.flatten(branch.step(inputs, start)),
        tf.nest.flatten(branch.memory.step(torso, start)),
        strict=True,
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    sequence = {"vector": inputs["vector"][None]}  # [1, N, O]
    features, states = branch.unroll(sequence, start, tf.zeros([1, 2], tf.bool))
    np.testing.assert_allclose(features[0], branch.step(inputs, start)[0], rtol=1e-5, atol=1e-6)
    assert [state.shape for state in states] == [[1, 2, 5]] * (2 if kind == "lstm" else 1)


def test_names_of_layers_do_not_depend_on_the_process():
    settings = {"network": "impala", "layers": (4,)}
    names = [list(make({"image_0": (8, 8, 1)}, **settings).layers) for _ in range(2)]
    assert names[0] == names[1]
    assert len(set(names[0])) == len(names[0]) == 16
    assert names[0][:2] == ["conv2d", "conv2d_1"] and names[0][-1] == "hidden_0"


def test_inputs_without_a_shape_are_ignored():
    branch = make(layers=(4,))
    inputs = inputs_of(2, 3)
    masked = {**inputs, "action_mask": tf.ones([2, 3], tf.bool)}
    np.testing.assert_array_equal(branch.step(masked, ())[0], branch.step(inputs, ())[0])


def test_only_the_torso_computes_in_bfloat16():
    before = keras.config.dtype_policy()
    branch = make(layers=(4,), precision="bfloat16", recurrent="gru", recurrent_units=5)
    assert keras.config.dtype_policy() is before
    assert branch.layers["hidden_0"].compute_dtype == "bfloat16"
    assert {weight.dtype for weight in branch.memory.weights} == {"float32"}
    features, (state,) = branch.step(inputs_of(2, 3), branch.memory.zero_state(2))
    assert features.dtype == state.dtype == tf.float32


def test_a_network_that_does_not_fit_raises_and_leaves_keras_as_it_was():
    before = keras.config.dtype_policy()
    with pytest.raises(UsageError, match="too small for nature"):
        make({"image_0": (7, 7, 3)}, network="nature", precision="bfloat16")
    assert keras.config.dtype_policy() is before


def test_first_axes_are_swapped():
    values = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(swap_first_axes(tf.constant(values)), values.swapaxes(0, 1))
    np.testing.assert_array_equal(swap_first_axes(tf.constant(values[..., 0])), values[..., 0].T)


def test_many_images_pass_through_in_parts(monkeypatch):
    network = make({"image_0": (36, 36, 1), **VECTOR}, network="nature", layers=(4,))
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, [6, 5, 36, 36, 1], np.uint8)  # [L, N, ...]
    inputs = {"image_0": tf.constant(images), **inputs_of(6, 5, 3)}
    is_first = tf.zeros([6, 5], tf.bool)
    whole, _ = network.unroll(inputs, (), is_first)
    sizes = []
    forward = network._torso

    def counted(part):
        sizes.append({name: value.shape[0] for name, value in part.items()})
        return forward(part)

    monkeypatch.setattr(network, "_torso", counted)
    monkeypatch.setattr("agents.policies.branch._IMAGES_AT_A_TIME", 7)
    parts, _ = tf.function(lambda: network.unroll(inputs, (), is_first))()
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-5)
    assert sizes == [{"image_0": 6, "vector": 6}]  # Of 30 elements, in a loop that is traced once.


@pytest.mark.parametrize(
    "number, limit, part", [(30, 7, 6), (30, 5, 5), (30, 30, 30), (30, 99, 30), (31, 7, 1)]
)
def test_parts_are_equal(number, limit, part):
    assert equal_part(number, limit) == part
