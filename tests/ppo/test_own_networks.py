"""PPO trains all weights of networks that users write."""

import numpy as np
import pytest
import tensorflow as tf

from tests.policies.own_networks import SPACE
from tests.ppo.agent import FROZEN, UNNORMALIZED, Agent
from tests.toys import TWO_CHOICES, RandomEnv

FIXED = ("/fixed/", "/moving_mean", "/moving_variance")
# Attention does not depend on the bias of keys, except for rounding.
WITHOUT_EFFECT = "/key/bias"


def make_agent(num_envs=2, **settings):
    envs = [RandomEnv(SPACE, TWO_CHOICES) for _ in range(num_envs)]
    settings = {"network": "tests.policies.own_networks:attentive", **settings}
    return Agent(envs, 8, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"minibatch_size": 8, "critic_learning_rate": 0.01},
        pytest.param({"recurrent": "gru", "recurrent_units": 3}, marks=pytest.mark.slow),
        pytest.param({"shared_torso": True, "average_decay": 0.9}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_an_update_changes_every_weight_that_is_trained_and_no_other(settings):
    agent = make_agent(learning_rate=0.01, **settings)
    before = agent.variables()
    agent.iterate()
    after = agent.variables()
    branches = ("policy",) if "shared_torso" in settings else ("policy", "value")
    for branch in branches:
        weights = [name for name in before if name.startswith(f"network/{branch}/")]
        own = [name for name in weights if name.split("/")[2] not in ("output", "gru")]
        assert len(own) == 2 + 8 + 2 + 8  # Dense, attention, fixed, and the nested model.
    for name in before:
        if name.startswith("network/") and not name.endswith(WITHOUT_EFFECT):
            is_fixed = any(part in name for part in FIXED)
            assert (before[name] == after[name]).all() == is_fixed, name
    slots = [name for name in before if name.startswith("optimizer/")]
    assert slots and not any(part in name for part in FIXED for name in slots)


def test_gradients_equal_those_of_plain_automatic_differentiation():
    agent = make_agent(**UNNORMALIZED, normalize_value=False, **FROZEN)
    network, config = agent.ppo.policy.network, agent.config
    report = agent.iterate()
    arrays = {name: array for name, array in report.arrays.items() if name.startswith("rollout/")}
    # The policy before the first minibatch is the one that acted.
    assert abs(report.scalars["losses/approx_kl"]) < 1e-6
    with tf.GradientTape() as tape:
        inputs = {"vector": tf.constant(arrays["rollout/observ"])}
        policy, value = network.evaluate(inputs, {}, ())
        log_prob = policy.log_prob(tf.constant(arrays["rollout/action"]))
        policy_loss = -tf.reduce_mean(log_prob * arrays["rollout/advantage"])
        value_loss = 0.5 * tf.reduce_mean((value - arrays["rollout/return"]) ** 2)
        loss = policy_loss + config.value_coef * value_loss
        loss -= config.entropy_coef * tf.reduce_mean(policy.entropy())
    expected = tape.gradient(loss, network.trainable_variables())
    assert len(expected) == len(network.variables()) - 2 * 4
    for name, gradient in expected.items():
        actual = report.arrays[f"weight_gradients/{name}"]
        np.testing.assert_allclose(actual, gradient, rtol=1e-3, atol=1e-5, err_msg=name)
