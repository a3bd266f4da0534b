"""The environments in TensorFlow of the other tests; their learners have tests/learning."""

import numpy as np
import tensorflow as tf

from agents.tensor_envs import InGraphTensorEnv
from tests.tensor_toys import CountingInGraphEnv, CountingTensorEnv, RandomTensorEnv
from tests.toys import read_counts


def test_counting_environments_are_equal():
    durations = [1, 3]
    batches = [
        InGraphTensorEnv(CountingTensorEnv(durations), 2),
        CountingInGraphEnv(durations),
    ]
    for envs in batches:
        envs.reset()
    for _ in range(7):
        results = [envs.simulate(tf.zeros([2], tf.int64)) for envs in batches]
        for one, other in zip(*(tf.nest.flatten(each.observ) for each in results), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(results[0].terminated, results[1].terminated)
        np.testing.assert_array_equal(
            read_counts(results[0].final_observ), read_counts(results[1].final_observ)
        )
    np.testing.assert_array_equal(results[0].reward, [1, 1])


def test_random_environments_have_durations_and_a_fault():
    env = RandomTensorEnv(durations=(2, 4), fault_at=2, fault_row=1)
    envs = InGraphTensorEnv(env, 3)
    envs.reset(seed=tf.range(3, dtype=tf.int64))
    step = tf.function(envs.simulate, jit_compile=True)
    results = [step(tf.ones([3, 1])) for _ in range(60)]
    done = np.array([result.terminated for result in results])
    lengths = [np.diff(np.flatnonzero(column)) for column in done.T]
    assert set(np.concatenate(lengths)) == {2, 3, 4}
    reward = np.array([result.reward for result in results])
    assert not np.isnan(reward[:, [0, 2]]).any()
    is_first = np.r_[True, done[:-1, 1]]
    np.testing.assert_array_equal(np.isnan(reward[:, 1]), np.r_[False, is_first[:-1]])
    env.fault.assign(np.inf)
    assert np.isinf([step(tf.ones([3, 1])).reward[1] for _ in range(4)]).any()
