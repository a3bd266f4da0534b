"""Learners that reduce what they have to agree on: two with half of the data equal one with all."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from agents.ppo.rollout_processor import RolloutProcessor
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
}


def make_agent(num_envs, seed, settings, **reducer):
    """An agent whose minibatches are the whole rollout, so that shuffling makes no difference."""
    envs = [RandomEnv(mean=[5, -1], std=[3, 0.5]) for _ in range(num_envs)]
    sizes = {"layers": (4,), "epochs": 2, "learning_rate": 0.01}
    agent = Agent(envs, LENGTH, **reducer, **sizes, **settings)
    agent.batch_env.reset(seed=tf.range(num_envs, dtype=tf.int64) + seed)
    return agent


def join_environments(rollouts):
    """The rollout [T, B, ...] of all environments of several learners."""
    return tf.nest.map_structure(lambda *each: tf.concat(each, axis=1), *rollouts)


def assign_samples(agent, others):
    """Assigns samples and states of agents that acted in parts of an agent's environments."""
    tf.nest.map_structure(
        lambda variable, *each: variable.assign(tf.concat(each, axis=1)),
        agent.ppo._samples,
        *(other.ppo._samples for other in others),
    )
    for state in (lambda one: one.batch_env.observ, lambda one: one.ppo._start_states):
        tf.nest.map_structure(
            lambda variable, *each: variable.assign(tf.concat(each, axis=0)),
            state(agent),
            *map(state, others),
        )


@pytest.mark.parametrize("settings", ITERATIONS.values(), ids=ITERATIONS)
def test_iterations_of_two_learners_equal_one_in_all_environments(settings):
    group = LearnerGroup()
    learners = [
        make_agent(NUM_ENVS // 2, 100 * index, settings, reducer=reducer)
        for index, reducer in enumerate(group.reducers)
    ]
    whole = make_agent(NUM_ENVS, 0, settings)
    for _ in range(2):
        rollouts = [learner.collect() for learner in learners]
        assign_samples(whole, learners)
        train = functools.partial(whole.ppo.train, join_environments(rollouts))
        [expected] = LearnerGroup(1).run(train)  # Eagerly, too: compiling takes long.
        reports = group.run(
            *(
                functools.partial(learner.ppo.train, rollout)
                for learner, rollout in zip(learners, rollouts, strict=True)
            )
        )
        tag = "losses/explained_variance"
        for report in reports:
            np.testing.assert_allclose(report.scalars[tag], expected.scalars[tag], rtol=1e-3)
        assert_agree(whole, learners)
    assert float(expected.scalars["losses/epochs"]) > 0


def assert_agree(whole, learners):
    """Checks that learners have the variables of one in all environments."""
    # Those of a learner's own environments and random numbers.
    local = ("algorithm/steps", "algorithm/generator", "normalize_reward/sums")
    for learner in learners:
        variables = learner.variables()
        assert variables.keys() == whole.variables().keys()
        for name, variable in whole.variables().items():
            if name not in local and "_states/" not in name:
                np.testing.assert_allclose(
                    variables[name], variable, rtol=2e-3, atol=1e-5, err_msg=name
                )


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
        make_agent(2, 0, settings, **reducer) for reducer in ({}, {"reducer": PlainGraphReducer()})
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


def test_every_part_gets_the_reducer():
    agent = make_agent(2, 0, ITERATIONS["feed-forward"], reducer=PlainGraphReducer())
    reducer, ppo = agent.ppo._reducer, agent.ppo
    assert isinstance(reducer, PlainGraphReducer)
    assert isinstance(ppo._processor, RolloutProcessor)
    moments = [
        ppo.policy.observ_normalizer._moments,
        ppo._processor._reward_normalizer._moments,
        ppo._processor._value_normalizer._moments,
    ]
    for part in (*moments, ppo._loss, *ppo._loss._penalties, ppo._update):
        assert part._reducer is reducer
