import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.learning.returns import (
    discounted_sums,
    explained_variance,
    generalized_advantages,
    standardize,
    successor_values,
)
from tests.tensor_toys import LearnerGroup


def numbers(*shape):
    return arrays.arrays(np.float64, shape, elements=st.floats(-100, 100))


def flags(*shape):
    return arrays.arrays(bool, shape)


@st.composite
def rollouts(draw):
    steps, batch = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    return {
        "reward": draw(numbers(steps, batch)),
        "value": draw(numbers(steps, batch)),
        "final_value": draw(numbers(steps, batch)),
        "last_value": draw(numbers(batch)),
        "terminated": draw(flags(steps, batch)),
        "truncated": draw(flags(steps, batch)),
        "discount": draw(st.floats(0, 1)),
        "gae_lambda": draw(st.floats(0, 1)),
    }


def loop_next_values(rollout):
    next_values = np.empty_like(rollout["value"])
    steps, batch = next_values.shape
    for step in range(steps):
        for env in range(batch):
            if rollout["terminated"][step, env]:
                next_values[step, env] = 0
            elif rollout["truncated"][step, env]:
                next_values[step, env] = rollout["final_value"][step, env]
            elif step == steps - 1:
                next_values[step, env] = rollout["last_value"][env]
            else:
                next_values[step, env] = rollout["value"][step + 1, env]
    return next_values


def loop_advantages(rollout):
    """Equation 16 of the paper, literally: a sum over all later steps of the same episode."""
    next_values, reward, value = loop_next_values(rollout), rollout["reward"], rollout["value"]
    done = rollout["terminated"] | rollout["truncated"]
    discount, decay = rollout["discount"], rollout["discount"] * rollout["gae_lambda"]
    advantages = np.zeros_like(reward)
    steps, batch = reward.shape
    for step in range(steps):
        for env in range(batch):
            for later in range(step, steps):
                delta = reward[later, env] + discount * next_values[later, env] - value[later, env]
                advantages[step, env] += decay ** (later - step) * delta
                if done[later, env]:
                    break
    return advantages


def compute(rollout):
    names = ("value", "final_value", "last_value", "terminated", "truncated")
    next_values = successor_values(*(tf.constant(rollout[name]) for name in names))
    advantages = generalized_advantages(
        tf.constant(rollout["reward"]),
        tf.constant(rollout["value"]),
        next_values,
        tf.constant(rollout["terminated"] | rollout["truncated"]),
        rollout["discount"],
        rollout["gae_lambda"],
    )
    return next_values, advantages


@given(rollouts())
@settings(max_examples=60, deadline=None)
def test_advantages_equal_plain_loops(rollout):
    next_values, advantages = compute(rollout)
    np.testing.assert_array_equal(next_values, loop_next_values(rollout))
    np.testing.assert_allclose(advantages, loop_advantages(rollout), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("terminated", "truncated", "advantages"),
    [
        # Values 10, 11, 20 and rewards 1, 2, 1; the second step ends an episode in a state of
        # value 12; V(last) is 21; discount and lambda are a half. The first delta is
        # 1 + 11/2 - 10 = -3.5, the third 1 + 21/2 - 20 = -8.5.
        (False, False, [-3.5 + (1 + (-8.5) / 4) / 4, 1 + (-8.5) / 4, -8.5]),  # 2 + 20/2 - 11 = 1
        (False, True, [-3.5 - 3 / 4, -3, -8.5]),  # 2 + 12/2 - 11 = -3
        (True, False, [-3.5 - 9 / 4, -9, -8.5]),  # 2 - 11 = -9
        (True, True, [-3.5 - 9 / 4, -9, -8.5]),
    ],
)
def test_advantages_computed_by_hand(terminated, truncated, advantages):
    rollout = {
        "reward": np.array([[1.0], [2.0], [1.0]]),
        "value": np.array([[10.0], [11.0], [20.0]]),
        "final_value": np.array([[np.nan], [12.0], [np.nan]]),  # Arbitrary without an end.
        "last_value": np.array([21.0]),
        "terminated": np.array([[False], [terminated], [False]]),
        "truncated": np.array([[False], [truncated], [False]]),
        "discount": 0.5,
        "gae_lambda": 0.5,
    }
    np.testing.assert_allclose(compute(rollout)[1][:, 0], advantages, rtol=1e-12)


@given(rollouts(), st.lists(st.integers(1, 11), max_size=3))
@settings(max_examples=60, deadline=None)
def test_discounted_sums_of_any_rollouts_equal_a_plain_loop(rollout, cuts):
    reward, done = rollout["reward"], rollout["terminated"]
    expected, so_far = np.empty_like(reward), rollout["last_value"].copy()
    for step, rewards in enumerate(reward):
        so_far = rollout["discount"] * so_far + rewards
        expected[step] = so_far
        so_far = np.where(done[step], 0, so_far)
    start, sums = tf.constant(rollout["last_value"]), []
    for rewards, dones in zip(
        np.split(reward, sorted(cuts)), np.split(done, sorted(cuts)), strict=True
    ):
        if len(rewards):
            part, start = discounted_sums(
                tf.constant(rewards), tf.constant(dones), start, rollout["discount"]
            )
            sums.append(part)
    np.testing.assert_allclose(np.concatenate(sums), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(start, so_far, rtol=1e-9, atol=1e-9)


def test_different_shapes_raise():
    flag, number = tf.zeros([3, 2], tf.bool), tf.zeros([3, 2])
    with pytest.raises(ValueError, match="incompatible"):
        successor_values(number, tf.zeros([3, 1]), number[0], flag, flag)
    with pytest.raises(ValueError, match="incompatible"):
        generalized_advantages(number, tf.zeros([3, 1]), number, flag, 0.9, 0.9)


# Statistics of batches.


@pytest.mark.parametrize("scale", [1, 1e-3, 1e3])
def test_explained_variance_equals_numpy(scale):
    random = np.random.default_rng(0)
    value, target = random.normal(0, scale, size=(2, 20, 3))
    expected = 1 - np.var(target - value) / np.var(target)
    np.testing.assert_allclose(
        explained_variance(tf.constant(value), tf.constant(target)), expected
    )
    target = tf.constant(target, tf.float32)
    np.testing.assert_allclose(explained_variance(target, target), 1)
    np.testing.assert_allclose(
        explained_variance(tf.fill([20, 3], 5.0 * scale), target), 0, atol=1e-6
    )
    np.testing.assert_array_equal(explained_variance(target, tf.ones([20, 3])), 0)


def test_learners_standardize_and_explain_the_whole_batch():
    random = np.random.default_rng(0)
    # The halves differ in mean and variance, so that their own statistics are of no use.
    halves = np.stack([random.normal(3, 1, size=6), random.normal(-5, 4, size=6)])
    values = halves + random.normal(size=halves.shape)
    group = LearnerGroup()

    def statistics(index):
        reducer, half = group.reducers[index], tf.constant(halves[index])
        return (
            standardize(half, reducer),
            explained_variance(tf.constant(values[index]), half, reducer),
        )

    (one, explained), (other, same) = group.run(lambda: statistics(0), lambda: statistics(1))
    expected = (halves - halves.mean()) / halves.std()
    np.testing.assert_allclose([one, other], expected, rtol=1e-6)
    assert float(explained) == float(same)
    np.testing.assert_allclose(explained, 1 - np.var(halves - values) / np.var(halves), rtol=1e-6)


@pytest.mark.parametrize("min_std", [0.5, 1.0])
@pytest.mark.parametrize("std", [0.1, 3.0])
def test_small_advantages_are_not_enlarged(std, min_std):
    advantage = np.random.default_rng(0).normal(2, std, size=[50]).astype(np.float32)
    expected = (advantage - advantage.mean()) / max(advantage.std(), min_std)
    scaled = standardize(tf.constant(advantage), min_std=min_std)
    np.testing.assert_allclose(scaled, expected, rtol=1e-4, atol=1e-5)
