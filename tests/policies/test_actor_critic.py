import functools
import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.factory import make_action_distribution
from agents.errors import UsageError
from agents.policies.actor_critic import ActorCritic, Branch
from agents.policies.inputs import Inputs
from agents.settings.config_file import load_config

BOX = spaces.Box(-2, 2, (2,), np.float32)
NUMBERS = spaces.Box(-1, 1, (3,), np.float32)
VECTOR = {"vector": (3,)}
RECURRENT = {"recurrent": "gru", "recurrent_units": 5, "layers": (4,)}


def make(space=NUMBERS, action_space=BOX, seed=0, **settings):
    config = load_config("default", **settings)
    inputs = Inputs(space, keep_images=config.network != "feed_forward")
    return ActorCritic(inputs, make_action_distribution(action_space, config), config, seed)


def weights_of(network):
    return {name: variable.numpy() for name, variable in network.variables().items()}


def vectors(*shape):
    return {"vector": tf.constant(np.random.default_rng(0).normal(size=shape).astype(np.float32))}


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_outputs_equal_two_numpy_networks(activation):
    network = make(layers=(5, 4), activation=activation, value_layers=(6,), initial_log_std=-1.0)
    for variable in network.variables().values():
        variable.assign(variable + 0.1)  # No bias or log standard deviation is zero.
    weights = weights_of(network)
    inputs = vectors(7, 3)

    def outputs(name, hidden):
        values = inputs["vector"].numpy()
        for layer in hidden:
            values = values @ weights[f"{name}/{layer}/kernel"] + weights[f"{name}/{layer}/bias"]
            values = np.tanh(values) if activation == "tanh" else np.maximum(values, 0)
        return values @ weights[f"{name}/output/kernel"] + weights[f"{name}/output/bias"]

    policy, states = network.policy(inputs, {})
    assert states == network.zero_states(7) == {}
    np.testing.assert_allclose(
        policy.mode(), outputs("policy", ["hidden_0", "hidden_1"]), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(policy.statistics()["std"], np.full([7, 2], np.exp(-0.9)), rtol=1e-5)
    value = outputs("value", ["hidden_0"])[:, 0]
    np.testing.assert_allclose(network.value(inputs, {}), value, rtol=1e-5, atol=1e-6)
    evaluated, values = network.evaluate(inputs, {}, ())
    np.testing.assert_allclose(evaluated.mode(), policy.mode(), rtol=1e-6)
    np.testing.assert_allclose(values, value, rtol=1e-5, atol=1e-6)


def test_initial_weights_are_orthogonal_with_the_usual_gains():
    weights = weights_of(make(layers=(8, 4)))
    gains = {"hidden_0": np.sqrt(2), "hidden_1": np.sqrt(2)}
    for name, output_gain in (("policy", 0.01), ("value", 1.0)):
        for layer, gain in {**gains, "output": output_gain}.items():
            kernel = weights[f"{name}/{layer}/kernel"] / gain
            small = kernel.T @ kernel if kernel.shape[0] >= kernel.shape[1] else kernel @ kernel.T
            np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-5)
            np.testing.assert_array_equal(weights[f"{name}/{layer}/bias"], 0)
    np.testing.assert_array_equal(weights["policy/log_std"], [0, 0])


def test_a_state_dependent_deviation_starts_at_the_initial_one():
    network = make(state_dependent_std=True, initial_log_std=-1.5)
    std = network.policy(vectors(4, 3), {})[0].statistics()["std"].numpy()
    np.testing.assert_allclose(std, np.exp(-1.5), rtol=0.1)
    assert np.ptp(std) > 0
    assert "policy/log_std" not in network.variables()


def test_the_seed_determines_the_weights_and_no_two_layers_are_equal():
    one, same, other = (
        weights_of(make(spaces.Box(-1, 1, (4,)), layers=(4, 4), seed=seed)) for seed in (1, 1, 2)
    )
    kernels = [name for name in one if name.endswith("kernel")]
    assert len(kernels) == 6
    for name in kernels:
        np.testing.assert_array_equal(one[name], same[name])
        assert (one[name] != other[name]).any()
    squares = [
        one[f"{name}/hidden_{layer}/kernel"] for name in ("policy", "value") for layer in (0, 1)
    ]
    assert len({kernel.tobytes() for kernel in squares}) == 4


def test_the_seed_leaves_pythons_random_numbers_as_they_were():
    random.seed(7)
    expected = random.random()
    random.seed(7)
    make(seed=1)
    assert random.random() == expected


def test_a_shared_torso_learns_from_both_losses():
    network = make(shared_torso=True, layers=(4,))
    with tf.GradientTape() as tape:
        policy, value = network.evaluate(vectors(5, 3), {}, ())
        losses = [tf.reduce_sum(policy.mode()), tf.reduce_sum(value)]
        both = tf.add_n(losses)
    weights = network.variables()
    assert {name.split("/")[1] for name in weights if name.startswith("value/")} == {"output"}
    gradients = dict(zip(weights, tape.gradient(both, list(weights.values())), strict=True))
    assert np.abs(gradients["policy/hidden_0/kernel"]).max() > 0
    assert "value/hidden_0/kernel" in make(layers=(4,)).variables()


@pytest.mark.parametrize("shared", [False, True])
def test_a_recurrent_network_computes_sequences_as_it_computes_steps(shared):
    # These are different programs: numbers around 1 differ by some units of float32's last place.
    assert_close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    network = make(shared_torso=shared, state_dependent_std=True, **RECURRENT)
    for variable in network.variables().values():
        variable.assign(variable + 0.1)
    inputs = vectors(6, 2, 3)  # [L, N, O]
    is_first = np.zeros([6, 2], bool)
    is_first[3, 0] = True
    start = network.zero_states(2)
    assert set(start) == ({"policy"} if shared else {"policy", "value"})
    parameters, policy_states = network.policies(inputs, start, tf.constant(is_first))
    values, value_states = network.values(inputs, start, tf.constant(is_first))
    modes = network.distribution(parameters, inputs).mode()  # [L, N, A]
    std = network.distribution(parameters, inputs).statistics()["std"]  # [L, N, A]
    after = {**policy_states, **value_states}  # [L, N, U]
    states = start
    for step in range(6):
        before = {
            name: tuple(tf.where(is_first[step][:, None], 0.0, part) for part in state)
            for name, state in states.items()
        }
        now = {"vector": inputs["vector"][step]}
        policy, states = network.policy(now, before)
        assert_close(modes[step], policy.mode())
        assert_close(std[step], policy.statistics()["std"])
        assert_close(values[step], network.value(now, before))
        for part, stepped in zip(policy_states["policy"], states["policy"], strict=True):
            assert_close(part[step], stepped)
        states |= {name: tuple(part[step] for part in state) for name, state in after.items()}
    # Minibatches of sequences have the environments first.
    by_env = {"vector": tf.transpose(inputs["vector"], [1, 0, 2])}  # [N, L, O]
    policy, values_of_batch = network.evaluate(by_env, start, tf.constant(is_first.T))
    assert_close(values_of_batch, tf.transpose(values))
    assert_close(policy.mode(), tf.transpose(modes, [1, 0, 2]))


def test_only_hidden_layers_compute_in_bfloat16():
    plain, mixed = (
        make(precision=precision, layers=(64,)) for precision in ("float32", "bfloat16")
    )
    assert {variable.dtype for variable in mixed.variables().values()} == {tf.float32}
    inputs = vectors(50, 3)
    values = [network.value(inputs, {}) for network in (plain, mixed)]
    assert values[1].dtype == tf.float32
    assert 0 < np.abs(values[0] - values[1]).max() < 0.05
    assert make().value(inputs, {}).dtype == tf.float32


def test_masked_actions_have_no_probability():
    network = make(action_space=spaces.Discrete(3), action_mask=True)
    mask = tf.constant([[True, False, True]] * 2)
    inputs = {**vectors(2, 3), "action_mask": mask}
    for policy in (network.policy(inputs, {})[0], network.evaluate(inputs, {}, ())[0]):
        log_probs = [policy.log_prob(tf.fill([2], action)) for action in range(3)]
        np.testing.assert_allclose(np.exp(log_probs[1]), 0, atol=1e-12)
        np.testing.assert_allclose(np.exp(log_probs[0]) + np.exp(log_probs[2]), 1, rtol=1e-6)


# One branch.


def make_branch(shapes=VECTOR, name="policy", **settings):
    return Branch(name, shapes, load_config("default", **settings))


def test_only_the_torso_computes_in_bfloat16():
    before = keras.config.dtype_policy()
    branch = make_branch(layers=(4,), precision="bfloat16", recurrent="gru", recurrent_units=5)
    assert keras.config.dtype_policy() is before
    assert branch.layers["hidden_0"].compute_dtype == "bfloat16"
    assert {weight.dtype for weight in branch.memory.weights} == {"float32"}
    features, (state,) = branch.step(vectors(2, 3), branch.memory.zero_state(2))
    assert features.dtype == state.dtype == tf.float32


def test_a_network_that_does_not_fit_raises_and_leaves_keras_as_it_was():
    before = keras.config.dtype_policy()
    with pytest.raises(UsageError, match="too small for nature"):
        make_branch({"image_0": (7, 7, 3)}, network="nature", precision="bfloat16")
    assert keras.config.dtype_policy() is before


def test_many_images_pass_through_in_parts(monkeypatch):
    network = make_branch({"image_0": (36, 36, 1), **VECTOR}, network="nature", layers=(4,))
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, [6, 5, 36, 36, 1], np.uint8)  # [L, N, ...]
    inputs = {"image_0": tf.constant(images), **vectors(6, 5, 3)}
    is_first = tf.zeros([6, 5], tf.bool)
    whole, _ = network.unroll(inputs, (), is_first)
    sizes = []
    forward = network._torso

    def counted(part):
        sizes.append({name: value.shape[0] for name, value in part.items()})
        return forward(part)

    monkeypatch.setattr(network, "_torso", counted)
    monkeypatch.setattr("agents.policies.actor_critic._IMAGES_AT_A_TIME", 7)
    parts, _ = tf.function(lambda: network.unroll(inputs, (), is_first))()
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-5)
    assert sizes == [{"image_0": 6, "vector": 6}]  # Of 30 elements, in a loop that is traced once.
