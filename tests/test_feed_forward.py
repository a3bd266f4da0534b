import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.networks.feed_forward import FeedForward
from agents.parts.distributions import Categorical, DiagonalGaussian
from agents.tools.errors import UnsupportedSpaceError

BOX = spaces.Box(-2, 2, (2,), np.float32)


def weights_of(network):
    return {name: variable.numpy() for name, variable in network.variables().items()}


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_outputs_are_those_of_two_plain_networks(activation):
    network = FeedForward(3, BOX, (5, 4), activation, initial_log_std=-1.0)
    for variable in network.variables().values():
        variable.assign(variable + 0.1)  # Biases and the deviation, too, are used.
    weights = weights_of(network)
    observ = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)

    def outputs(name):
        values = observ
        for layer in ("hidden_0", "hidden_1", "output"):
            values = values @ weights[f"{name}/{layer}/kernel"] + weights[f"{name}/{layer}/bias"]
            if layer != "output":
                values = np.tanh(values) if activation == "tanh" else np.maximum(values, 0)
        return values

    policy = network.policy(tf.constant(observ))
    assert isinstance(policy, DiagonalGaussian)
    np.testing.assert_allclose(policy.mode(), outputs("policy"), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(policy.statistics()["std"], np.full([7, 2], np.exp(-0.9)), rtol=1e-5)
    np.testing.assert_allclose(network.value(tf.constant(observ)), outputs("value")[:, 0], rtol=1e-5, atol=1e-6)


def test_initial_weights_are_orthogonal_with_the_usual_gains():
    weights = weights_of(FeedForward(3, BOX, (8, 4)))
    gains = {"hidden_0": np.sqrt(2), "hidden_1": np.sqrt(2)}
    for name, output_gain in (("policy", 0.01), ("value", 1.0)):
        for layer, gain in {**gains, "output": output_gain}.items():
            kernel = weights[f"{name}/{layer}/kernel"] / gain
            small = kernel.T @ kernel if kernel.shape[0] >= kernel.shape[1] else kernel @ kernel.T
            np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-5)
            np.testing.assert_array_equal(weights[f"{name}/{layer}/bias"], 0)
    np.testing.assert_array_equal(weights["policy/log_std"], [0, 0])


def test_the_seed_decides_on_the_weights_and_no_two_layers_are_alike():
    one, same, other = (weights_of(FeedForward(4, BOX, (4, 4), seed=seed)) for seed in (1, 1, 2))
    kernels = [name for name in one if name.endswith("kernel")]
    assert len(kernels) == 6
    for name in kernels:
        np.testing.assert_array_equal(one[name], same[name])
        assert (one[name] != other[name]).any()
    squares = [one[f"{name}/hidden_{layer}/kernel"] for name in ("policy", "value") for layer in (0, 1)]
    assert len({kernel.tobytes() for kernel in squares}) == 4


def test_without_hidden_layers_it_is_linear():
    network = FeedForward(2, spaces.Discrete(3), ())
    weights = weights_of(network)
    assert set(weights) == {f"{name}/output/{kind}" for name in ("policy", "value") for kind in ("kernel", "bias")}
    np.testing.assert_allclose(network.value(tf.eye(2)), weights["value/output/kernel"][:, 0], rtol=1e-6)


def test_box_actions_get_the_spaces_shape_and_type_and_keep_to_its_bounds():
    space = spaces.Box(np.array([[-1.0], [0.0]]), np.array([[1.0], [np.inf]]), dtype=np.float64)
    network = FeedForward(3, space)
    assert network.action_size == 2
    action = network.to_environment(tf.constant([[5.0, 7.0], [-5.0, -7.0], [0.25, 0.5]]))
    assert action.dtype == tf.float64
    np.testing.assert_array_equal(action, [[[1.0], [7.0]], [[-1.0], [0.0]], [[0.25], [0.5]]])
    assert all(space.contains(one) for one in action.numpy())


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_discrete_actions_begin_where_the_space_does(dtype):
    space = spaces.Discrete(3, start=-1, dtype=dtype)
    network = FeedForward(2, space)
    assert isinstance(network.policy(tf.zeros([1, 2])), Categorical)
    assert network.action_size == 3
    action = network.to_environment(tf.constant([0, 1, 2]))
    assert action.dtype == dtype
    np.testing.assert_array_equal(action, [-1, 0, 1])


def test_a_scalar_action_is_an_action():
    network = FeedForward(2, spaces.Box(-1, 1, (), np.float32))
    np.testing.assert_array_equal(network.to_environment(tf.constant([[3.0], [0.5]])), [1.0, 0.5])


@pytest.mark.parametrize(
    "space", [spaces.MultiBinary(3), spaces.MultiDiscrete([2, 2]), spaces.Box(0, 9, (2,), np.int32), spaces.Dict(a=BOX)]
)
def test_action_spaces_without_a_policy_are_named(space):
    with pytest.raises(UnsupportedSpaceError) as caught:
        FeedForward(2, space)
    assert str(space) in str(caught.value)
