"""Iterations of two learners in half of the environments each equal those of one in all."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from agents.learning.reduction import SINGLE_LEARNER
from tests.fingerprint import fingerprint
from tests.ppo.agent import Agent
from tests.tensor_toys import LearnerGroup
from tests.toys import RandomEnv

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
    "recurrent, correlated noise": {
        "recurrent": "gru",
        "recurrent_units": 3,
        "sequence_length": 2,
        "noise_correlation": 0.5,
    },
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
