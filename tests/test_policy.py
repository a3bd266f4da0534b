import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.config import load_config
from agents.ppo.policy import Policy
from agents.tools.errors import UnsupportedSpaceError

BOX = spaces.Box(-2, 2, (3,), np.float32)


def make(action_space=BOX, **settings):
    return Policy(BOX, action_space, load_config("default", layers=[8], **settings))


@pytest.mark.parametrize("action_space", [spaces.Box(-0.1, 0.1, (2, 2)), spaces.Discrete(3, start=5)], ids=str)
@pytest.mark.parametrize("number", [1, 7])
def test_acts_in_any_number_of_environments_within_their_space(action_space, number):
    observ = tf.random.stateless_normal([number, 3], seed=[0, 1])
    sample, action, _ = make(action_space).act(observ, deterministic=False)
    assert len(sample) == len(action) == number
    batch = gymnasium.vector.utils.batch_space(action_space, number)
    assert batch.contains(action.numpy())


def test_deterministic_actions_are_the_mode_and_draw_nothing():
    policy = make()
    observ = tf.ones([4, 3])
    first, second = (policy.act(observ, deterministic=True)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, policy.network.policy(policy.normalized(policy.inputs(observ)), {})[0].mode())
    drawn = [policy.act(observ, deterministic=False)[0].numpy() for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).min() > 0


def test_equal_seeds_give_equal_weights_and_others_do_not():
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    observ = tf.ones([1, 3])
    values = [policy.network.value(policy.inputs(observ), {}).numpy() for policy in (one, same, other)]
    assert values[0] == values[1] != values[2]


def test_acts_on_normalised_observations():
    policy = make()
    observ = tf.constant([[1.0, 2.0, 3.0], [3.0, 6.0, 9.0]])
    before = policy.act(observ, deterministic=True)[0].numpy()
    policy.normalize_observ.update(policy.inputs(observ)["vector"])
    after = policy.act(observ, deterministic=True)[0].numpy()
    expected = policy.network.policy({"vector": tf.constant([[-1.0] * 3, [1.0] * 3])}, {})[0].mode()
    np.testing.assert_allclose(after, expected, atol=1e-6)
    assert not np.allclose(before, after)


def test_what_there_is_no_policy_for_is_named():
    with pytest.raises(UnsupportedSpaceError, match="int32"):
        make(spaces.Box(0, 5, (2,), np.int32))
