"""Learners that reduce what they have to agree on: two with half of the data equal one with all."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from agents.learning.reduction import SINGLE_LEARNER
from tests.fingerprint import fingerprint
from tests.ppo.agent import Agent
from tests.ppo.linear_learner import EPOCHS, Learner, N, make_problem
from tests.tensor_toys import LearnerGroup, PlainGraphReducer
from tests.toys import RandomEnv

HALF = N // 2
AGREED = {"losses/gradient_norm", "losses/epochs", "losses/kl"}
AGREED |= {"schedule/learning_rate", "schedule/kl_penalty"}

# Divergences and thresholds are such that a learner on its own would decide otherwise.
UPDATES = {
    "standardized advantages": {},
    "clipped gradients": {"max_gradient_norm": 0.1, "entropy_coef": 0.05, "value_clip": 0.2},
    "KL penalty": {"objective": "clip_kl", "kl_target": 0.12, "kl_cutoff_coef": 0.0},
    "stop before a minibatch": {"kl_stop": 0.1, "learning_rate": 0.05},
    "stop after an epoch": {"kl_stop": 0.1, "kl_stop_after": "epoch", "learning_rate": 0.05},
    "KL-adaptive rate": {"learning_rate_schedule": "kl", "kl_target": 0.05},
}


def take(arrays, rows):
    return tf.nest.map_structure(lambda array: array[rows], arrays)


@pytest.mark.parametrize("settings", UPDATES.values(), ids=UPDATES)
def test_updates_of_two_learners_equal_one_of_the_whole_batch(settings):
    weights, arrays = make_problem()
    # The halves have different statistics.
    arrays["advantage"][:HALF] += 5
    arrays["old_log_prob"][:HALF] += 0.4
    arrays["old_parameters"][0][:HALF] += 0.3
    group = LearnerGroup()
    learners = [
        Learner(weights, take(arrays, rows), reducer, jit_compile=None, **settings)
        for rows, reducer in zip((slice(HALF), slice(HALF, N)), group.reducers, strict=True)
    ]
    whole = Learner(weights, arrays, **settings)
    own = learners[0].minibatches.reshape(EPOCHS, -1, 4)  # [epochs, minibatches, M]
    whole.minibatches = np.concatenate([own, own + HALF], axis=-1).reshape(EPOCHS, N)
    for progress in (0.0, 0.5):
        expected = whole.run(progress)
        metrics = group.run(*(functools.partial(one.run, progress) for one in learners))
        for learner in learners:
            for name, variable in whole.network.variables().items():
                np.testing.assert_allclose(
                    learner.network.weights[name], variable, rtol=1e-4, atol=1e-6, err_msg=name
                )
        assert metrics[0].keys() == metrics[1].keys() == expected.keys()
        for tag, number in expected.items():
            mean = np.mean([each[tag] for each in metrics])
            np.testing.assert_allclose(mean, number, rtol=1e-3, atol=1e-5, err_msg=tag)
        for tag in AGREED & expected.keys():
            assert metrics[0][tag] == metrics[1][tag], tag
        assert ("kl_stop" in settings) == (expected["losses/epochs"] < EPOCHS)


# Whole iterations.

LENGTH, NUM_ENVS = 4, 4
ITERATIONS = {
    "feed-forward": {
        "objective": "clip_kl",
        "normalize_value": True,
        "critic_learning_rate": 0.02,
        "learning_rate_schedule": "kl",
        "kl_stop": 0.05,
        "kl_stop_after": "epoch",
    },
    "recurrent": {"recurrent": "gru", "recurrent_units": 3, "sequence_length": 2},
    "correlated noise": {"noise_correlation": 0.5, "critic_learning_rate": 0.02},
}


def make_agent(num_envs, settings, reducer=SINGLE_LEARNER):
    """An agent whose minibatches are the whole rollout, so that shuffling makes no difference.

    Args:
      num_envs: Number of environments of all learners.
      settings: Of the configuration.
      reducer: That of this learner, which gets its part of the environments.
    """
    own = np.split(np.arange(num_envs), reducer.num_learners)[reducer.rank]
    # They differ, so that parts have statistics of their own.
    envs = [RandomEnv(mean=[5 + 2 * index, -1], std=[3, 0.5]) for index in own]
    sizes = {"layers": (4,), "epochs": 2, "learning_rate": 0.01}
    agent = Agent(envs, LENGTH, reducer, **sizes, **settings)
    agent.batch_env.reset(seed=tf.constant(own))
    return agent


@pytest.mark.parametrize("settings", ITERATIONS.values(), ids=ITERATIONS)
def test_iterations_of_two_learners_equal_one_in_all_environments(settings):
    group = LearnerGroup()
    learners = [make_agent(NUM_ENVS, settings, reducer) for reducer in group.reducers]
    whole = make_agent(NUM_ENVS, settings)
    for iteration in range(2):
        expected = whole.collect()
        rollouts = [learner.collect() for learner in learners]
        assert_equal_parts(expected, rollouts)
        # Eagerly, too: compiling takes long.
        [report] = LearnerGroup(1).run(functools.partial(whole.ppo.train, expected))
        reports = group.run(
            *(
                functools.partial(learner.ppo.train, rollout)
                for learner, rollout in zip(learners, rollouts, strict=True)
            )
        )
        for tag in ("losses/explained_variance", "losses/epochs", "schedule/learning_rate"):
            for one in reports:
                np.testing.assert_allclose(one.scalars[tag], report.scalars[tag], rtol=1e-3)
        assert_agree(whole, learners)
        assert int(learners[0].ppo.steps) == (iteration + 1) * LENGTH * NUM_ENVS
    assert float(report.scalars["losses/epochs"]) > 0


def assert_equal_parts(rollout, parts):
    """Checks that learners have collected the parts of a rollout [T, B, ...]."""
    joined = tf.nest.map_structure(lambda *each: np.concatenate(each, axis=1), *parts)
    for whole, part in zip(tf.nest.flatten(rollout), tf.nest.flatten(joined), strict=True):
        np.testing.assert_allclose(part, whole, rtol=1e-3, atol=1e-4)


def assert_agree(whole, learners):
    """Checks that learners have the same variables, which are those of one in all environments."""
    first, *others = learners
    for name, variable in whole.variables().items():
        np.testing.assert_allclose(
            first.variables()[name], variable, rtol=2e-3, atol=1e-5, err_msg=name
        )
    assert first.variables().keys() == whole.variables().keys()
    for other in others:
        assert fingerprint(other.variables()) == fingerprint(first.variables())


def test_noise_is_drawn_for_all_environments():
    group = LearnerGroup()
    settings = {"noise_correlation": 0.5}
    learners = [make_agent(NUM_ENVS, settings, reducer) for reducer in group.reducers]
    whole = make_agent(NUM_ENVS, settings)
    for agent in (whole, *learners):
        agent.ppo.begin_rollout(LENGTH)
        agent.ppo.begin_rollout(LENGTH)
    noise = [learner.ppo._noise.numpy() for learner in learners]  # [T, B, K]
    np.testing.assert_array_equal(np.concatenate(noise, axis=1), whole.ppo._noise)
    assert fingerprint(learners[0].variables()) == fingerprint(learners[1].variables())


# Reducers that XLA can't compile.


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "clip_kl", "kl_stop": 0.1, "max_gradient_norm": 0.3},
        {"kl_stop": 0.05, "kl_stop_after": "epoch", "learning_rate_schedule": "kl"},
    ],
)
def test_an_update_in_a_plain_graph_equals_a_compiled_one(settings):
    weights, arrays = make_problem()
    compiled = Learner(weights, arrays, jit_compile=True, **settings)
    plain = Learner(weights, arrays, PlainGraphReducer(), **settings)
    for progress in (0.0, 0.5):
        metrics = [learner.run(progress) for learner in (compiled, plain)]
        for tag in metrics[0]:
            np.testing.assert_allclose(
                metrics[0][tag], metrics[1][tag], rtol=1e-4, atol=1e-6, err_msg=tag
            )
    for name, variable in compiled.network.variables().items():
        np.testing.assert_allclose(plain.network.weights[name], variable, rtol=1e-5, atol=1e-6)


def test_an_iteration_in_a_plain_graph_equals_a_compiled_one():
    settings = ITERATIONS["feed-forward"]
    compiled, plain = (
        make_agent(2, settings, reducer) for reducer in (SINGLE_LEARNER, PlainGraphReducer())
    )
    for _ in range(2):
        reports = [agent.iterate() for agent in (compiled, plain)]
        for tag, number in reports[0].scalars.items():
            np.testing.assert_allclose(
                reports[1].scalars[tag], number, rtol=1e-3, atol=1e-5, err_msg=tag
            )
    for name, variable in compiled.variables().items():
        np.testing.assert_allclose(
            plain.variables()[name], variable, rtol=1e-3, atol=1e-5, err_msg=name
        )
    graph = plain.ppo._train_graph.get_concrete_function(plain.collect()).graph
    ops = {
        node.op for function in graph.as_graph_def().library.function for node in function.node_def
    }
    assert "PyFunc" in ops or "PyFunc" in {node.op for node in graph.as_graph_def().node}
