"""PPO trains all weights of networks that users write."""

import numpy as np
import pytest
import tensorflow as tf

from tests.policies.own_networks import SPACE
from tests.ppo.agent import UNNORMALIZED, Agent
from tests.toys import TWO_CHOICES, RandomEnv

FIXED = ("/fixed/", "/moving_mean", "/moving_variance")
# Attention does not depend on the bias of keys, except for rounding.
WITHOUT_EFFECT = "/key/bias"


@pytest.mark.parametrize(
    "settings",
    [
        {"critic_learning_rate": 0.01},
        pytest.param({"recurrent": "gru", "recurrent_units": 3}, marks=pytest.mark.slow),
        pytest.param({"shared_torso": True, "average_decay": 0.9}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_an_update_changes_every_weight_that_is_trained_and_no_other(settings):
    envs = [RandomEnv(SPACE, TWO_CHOICES) for _ in range(2)]
    settings = {"network": "tests.policies.own_networks:attentive", **settings}
    agent = Agent(envs, 8, learning_rate=0.01, **UNNORMALIZED, **settings)
    before = agent.variables()
    report = agent.iterate(compiles=False)
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
    # The policy before the first minibatch is the one that acted.
    assert abs(report.scalars["losses/approx_kl"]) < 1e-6
    if "recurrent" not in settings:
        check_gradients(agent, before, report.arrays)


def check_gradients(agent, weights, arrays):
    """Compares gradients of a whole rollout with those of plain automatic differentiation."""
    network, config = agent.ppo.policy.network, agent.config
    for name, variable in network.variables().items():
        variable.assign(weights[f"network/{name}"])
    with tf.GradientTape() as tape:
        inputs = {"vector": tf.constant(arrays["rollout/observ"])}
        policy, value = network.evaluate(inputs, {}, ())
        log_prob = policy.log_prob(tf.constant(arrays["rollout/action"]))
        policy_loss = -tf.reduce_mean(log_prob * arrays["rollout/advantage"])
        value_loss = 0.5 * tf.reduce_mean((value - arrays["rollout/return"]) ** 2)
        loss = policy_loss + config.value_coef * value_loss
        loss -= config.entropy_coef * tf.reduce_mean(policy.entropy())
    expected = tape.gradient(loss, network.trainable_variables())
    for name, gradient in expected.items():
        actual = arrays[f"weight_gradients/{name}"]
        np.testing.assert_allclose(actual, gradient, rtol=1e-3, atol=1e-5, err_msg=name)
