import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.errors import UsageError
from agents.policies.policy import Policy, check_size
from agents.sac.critics import Critics
from agents.settings.config_file import load_config

BOX = spaces.Box(-2, 2, (3,), np.float32)


def make(action_space=BOX, **settings):
    return Policy(BOX, action_space, load_config("default", layers=[8], **settings))


@pytest.mark.parametrize(
    "action_space", [spaces.Box(-0.1, 0.1, (2, 2)), spaces.Discrete(3, start=5)], ids=str
)
@pytest.mark.parametrize("num_envs", [1, 7])
def test_actions_of_any_number_of_environments_are_in_their_space(action_space, num_envs):
    observ = tf.random.stateless_normal([num_envs, 3], seed=[0, 1])
    policy = make(action_space)
    modes = policy.network.policy(policy.preprocess(observ), {})[0].mode()
    for _ in range(2):
        np.testing.assert_array_equal(policy.act(observ, deterministic=True)[0], modes)
    sample, action, _ = policy.act(observ, deterministic=False)
    assert len(sample) == len(action) == num_envs
    batch = gymnasium.vector.utils.batch_space(action_space, num_envs)
    assert batch.contains(action.numpy())


def test_the_number_of_environments_may_be_unknown():
    policy = make(recurrent="gru", recurrent_units=4)
    signature = [tf.TensorSpec([None, 3], tf.float32)]
    act = tf.function(lambda observ: policy.act(observ, False)[1], input_signature=signature)
    for num_envs in (1, 5):
        assert act(tf.ones([num_envs, 3])).shape == (num_envs, 3)


def test_preprocessing_converts_and_normalizes():
    space = spaces.Dict(
        camera=spaces.Box(0, 255, (36, 36, 1), np.uint8), speed=spaces.Box(-1, 1, (2,))
    )
    config = load_config("default", layers=[8], network="nature", observ_clip=1.0)
    policy = Policy(space, BOX, config)
    observ = {
        "camera": tf.fill([3, 36, 36, 1], tf.constant(9, tf.uint8)),
        "speed": tf.constant([[2.0, 0.0], [4.0, 0.0], [6.0, 3.0]]),
    }
    inputs = policy.inputs.convert(observ)
    policy.update_normalizers(inputs)
    vectors = observ["speed"].numpy()
    expected = np.clip((vectors - vectors.mean(axis=0)) / vectors.std(axis=0), -1, 1)
    for normalized in (policy.normalize(inputs), policy.preprocess(observ)):
        np.testing.assert_allclose(normalized["vector"], expected, atol=1e-5)
        np.testing.assert_array_equal(normalized["image_0"], inputs["image_0"])


def test_noise_may_be_drawn_before_it_is_used():
    one, same = make(), make()
    observ = tf.ones([4, 3])
    expected, _, _ = one.act(observ, deterministic=False)
    noise = same.noise([4])
    sample, _, _ = same.act(observ, deterministic=False, noise=noise)
    np.testing.assert_array_equal(sample, expected)
    again, _, _ = same.act(observ, deterministic=False, noise=noise)
    np.testing.assert_array_equal(again, expected)


def test_a_recurrent_policy_returns_its_next_state():
    policy = make(recurrent="gru", recurrent_units=5)
    observ = tf.ones([4, 3])
    first, _, states = policy.act(observ, deterministic=True)
    assert set(states) == set(policy.zero_states(4)) == {"policy"}
    np.testing.assert_array_equal(policy.zero_states(4)["policy"][0], np.zeros([4, 5]))
    assert states["policy"][0].shape == [4, 5] and np.abs(states["policy"][0]).max() > 0
    second, _, _ = policy.act(observ, deterministic=True, states=states)
    assert np.abs(first - second).max() > 0
    again, _, _ = policy.act(observ, deterministic=True, states=policy.zero_states(4))
    np.testing.assert_array_equal(again, first)


def test_variables_are_those_of_network_and_normalizer():
    policy = make()
    network = {f"network/{name}" for name in policy.network.variables()}
    normalizer = {f"normalize_observ/{name}" for name in policy.observ_normalizer.variables()}
    assert set(policy.variables()) == network | normalizer
    assert len(normalizer) == 5
    assert set(make(normalize_observ=False).variables()) == network


def test_the_value_function_alone_gets_the_keys_of_the_critic():
    space = spaces.Dict(seen=BOX, hidden=spaces.Box(-np.inf, np.inf, (2,), np.float64))
    for settings in ({}, {"recurrent": "gru"}):
        config = load_config("default", layers=[8], critic_keys=["hidden"], **settings)
        policy = Policy(space, BOX, config)
        seen = tf.random.stateless_normal([4, 3], seed=[0, 1])
        hidden = 1.7e9 + tf.random.stateless_normal([4, 2], seed=[0, 2], dtype=tf.float64)
        observ = {"seen": seen, "hidden": hidden}
        # Acting needs no more than what the policy sees.
        first, _, _ = policy.act({"seen": seen}, deterministic=True)
        np.testing.assert_array_equal(policy.act(observ, deterministic=True)[0], first)
        inputs = policy.inputs.convert(observ, critic=True)
        policy.update_normalizers(inputs)
        normalized = policy.normalize(inputs)
        assert np.abs(normalized["critic_vector"]).max() < 3
        states = policy.network.zero_states(4)
        values = policy.network.value(normalized, states)
        others = {**normalized, "critic_vector": -normalized["critic_vector"]}
        assert np.abs(values - policy.network.value(others, states)).min() > 0
        assert any(name.startswith("normalize_critic_observ/") for name in policy.variables())


IMAGE = spaces.Box(0, 255, (84, 84, 4), np.uint8)


@pytest.mark.parametrize(
    "observations, actions, settings",
    [
        (BOX, BOX, {}),
        (BOX, BOX, {"layers": ()}),
        (BOX, BOX, {"value_layers": (16,), "recurrent": "gru"}),
        (BOX, spaces.Discrete(3), {"shared_torso": True, "recurrent": "lstm"}),
        (spaces.Dict(a=spaces.Discrete(50), b=BOX), BOX, {"critic_keys": ("a",)}),
        (spaces.Dict(a=BOX, b=IMAGE), BOX, {"network": "nature"}),
        (spaces.Box(0, 255, (36, 50, 3), np.uint8), BOX, {"network": "nature", "layers": ()}),
        (spaces.Box(0, 255, (9, 9), np.uint8), BOX, {"network": "impala"}),
    ],
)
def test_the_least_size_is_no_more_than_that_of_the_weights(observations, actions, settings):
    config = load_config("default", **settings)
    weights = Policy(observations, actions, config).network.variables().values()
    check_size(observations, actions, config, sum(weight.numpy().nbytes for weight in weights))


def test_critics_count_as_well():
    config = load_config("sac", num_critics=3, num_quantiles=25, value_layers=(32, 16))
    policy = Policy(BOX, BOX, config)
    critics = Critics(policy.inputs, BOX.shape[0], config, seed=0)
    own, theirs = (
        sum(weight.numpy().nbytes for weight in each.variables().values())
        for each in (policy.network, critics)
    )
    check_size(BOX, BOX, config, own)  # As in a file of the policy alone.
    check_size(BOX, BOX, config, own + theirs, with_critics=True)
    with pytest.raises(UsageError, match="does not fit"):
        check_size(BOX, BOX, config, (own + theirs) // 2, with_critics=True)


@pytest.mark.parametrize(
    "observations, actions, settings",
    [
        (BOX, BOX, {"layers": (65_536, 65_536)}),
        (BOX, BOX, {"value_layers": (65_536, 65_536)}),
        (BOX, BOX, {"recurrent": "gru", "recurrent_units": 65_536}),
        (BOX, BOX, {"preset": "sac", "value_layers": (65_536, 65_536)}),
        (BOX, BOX, {"preset": "sac", "num_critics": 100, "num_quantiles": 1000}),
        (spaces.Discrete(10**15), BOX, {}),
        (BOX, spaces.Discrete(10**15), {}),
        (BOX, spaces.MultiDiscrete([10**12, 3]), {}),
        (spaces.Box(0, 255, (4000, 4000), np.uint8), BOX, {"network": "nature"}),
    ],
)
def test_policies_that_no_file_can_hold_are_refused_before_they_are_made(
    observations, actions, settings
):
    config = load_config(settings.pop("preset", "default"), **settings)
    with pytest.raises(UsageError, match="the policy needs [0-9,]+ or more"):
        check_size(observations, actions, config, 10**8, with_critics=True)
