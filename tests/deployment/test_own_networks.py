"""Checkpoints hold everything of a network that a user writes, whatever it draws when it is loaded."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.deployment.export import export_policy
from agents.deployment.space_json import spaces_to_json
from agents.deployment.trained_policy import load_policy
from agents.errors import UsageError
from agents.runs.checkpoint import Checkpoints
from agents.runs.run_directory import RunDirectory
from agents.spaces import flatten
from tests.deployment import foreign
from tests.deployment.untrained import Kind, batches, save_run
from tests.policies import own_networks
from tests.policies.own_networks import SPACE
from tests.ppo.agent import Agent
from tests.toys import RandomEnv

FORCES = spaces.Box(-1, 1, (2,), np.float32)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run, observations [5, ...], and the actions of the trained policy and the averaged one."""
    agent = Agent(
        [RandomEnv(SPACE, FORCES)],
        4,
        network="tests.policies.own_networks:attentive",
        average_decay=0.9,
        learning_rate=0.1,
    )
    for _ in range(2):
        agent.iterate()
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "20260131T120000-own")
    run.prepare(agent.config)
    record = {"spaces": spaces_to_json(SPACE, FORCES)}
    Checkpoints(run.checkpoints, agent.ppo.variables(), record).save(1)
    observ = batches(SPACE, 5)
    tensors = tf.nest.map_structure(tf.constant, observ)
    policies = {"last": agent.ppo.policy, "averaged": agent.ppo.averaged_policy}
    actions = {
        name: policy.act(tensors, deterministic=True)[1].numpy()
        for name, policy in policies.items()
    }
    assert np.ptp(actions["last"], axis=0).max() > 1e-3
    assert np.abs(actions["last"] - actions["averaged"]).max() > 1e-3
    return run, observ, actions


@pytest.fixture(autouse=True)
def other_initial_values(trained, monkeypatch):
    monkeypatch.setattr(own_networks, "scale", 0.01)


@pytest.mark.parametrize("checkpoint", ["last", "averaged"])
def test_a_loaded_policy_acts_as_the_trained_one(trained, checkpoint):
    run, observ, actions = trained
    actual = load_policy(run, checkpoint)(observ)
    np.testing.assert_allclose(actual, actions[checkpoint], rtol=1e-5, atol=1e-6)


def test_an_exported_policy_acts_as_the_trained_one(trained, tmp_path):
    run, observ, actions = trained
    metadata = export_policy(run, tmp_path / "out", "tflite")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        act = foreign.load(tmp_path / "out", metadata)
    names = [tensor["name"] for tensor in metadata["inputs"]]
    results = act(dict(zip(names, flatten(SPACE, observ), strict=True)))
    np.testing.assert_allclose(results["action"], actions["last"], rtol=1e-4, atol=1e-5)


def test_statistics_of_data_are_those_of_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(own_networks, "scale", 1.0)
    kind = Kind((SPACE, FORCES), {"network": "tests.policies.own_networks:adapted"})
    run, observ = save_run(kind, tmp_path), batches(SPACE, 5)
    expected = load_policy(run)(observ)
    assert np.isfinite(expected).all() and np.ptp(expected, axis=0).max() > 1e-3
    monkeypatch.setattr(own_networks, "scale", 0.01)  # Of other data.
    np.testing.assert_allclose(load_policy(run)(observ), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "change, message",
    [
        ("less", "it also has network/policy/fixed/bias, network/policy/fixed/kernel"),
        ("more", "it has no network/policy/dense_2/kernel, network/policy/dense_2/bias"),
    ],
)
def test_a_network_that_has_changed_is_refused_with_names(trained, change, message, monkeypatch):
    attentive = own_networks.attentive

    def changed(inputs, config):
        if change == "more":
            features = attentive(inputs, config)  # First: default names are numbered.
            return keras.layers.Dense(4)(features)
        return keras.layers.Dense(4)(keras.layers.Flatten()(inputs["vector"]))

    monkeypatch.setattr(own_networks, "attentive", changed)
    with pytest.raises(UsageError, match="does not fit the configuration") as caught:
        load_policy(trained[0])
    assert message in str(caught.value)
    assert str(caught.value).count("\n") <= 2
