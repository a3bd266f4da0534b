import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.parts.returns import discounted_sums, generalized_advantages, successor_values


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
    """Equation 16 of the paper as it stands there: a sum over all later steps of the same episode."""
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


def computed(rollout):
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
    next_values, advantages = computed(rollout)
    np.testing.assert_array_equal(next_values, loop_next_values(rollout))
    np.testing.assert_allclose(advantages, loop_advantages(rollout), rtol=1e-9, atol=1e-9)


def test_advantages_equal_plain_loops_as_one_xla_program_in_single_precision():
    random = np.random.default_rng(1)
    shape = (64, 8)
    rollout = {
        **{name: random.normal(size=shape).astype(np.float32) for name in ("reward", "value", "final_value")},
        "last_value": random.normal(size=8).astype(np.float32),
        "terminated": random.random(shape) < 0.1,
        "truncated": random.random(shape) < 0.1,
        "discount": 0.99,
        "gae_lambda": 0.95,
    }
    next_values, advantages = tf.function(lambda: computed(rollout), jit_compile=True)()
    np.testing.assert_array_equal(next_values, loop_next_values(rollout))
    np.testing.assert_allclose(advantages, loop_advantages(rollout), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("terminated", "truncated", "advantages"),
    [
        # Values 10, 11, 20 with rewards 1, 2, 1; the second step ends an episode in a state of value 12; V(last) is 21;
        # discount and lambda are a half. deltas: 1 + 11/2 - 10 = -3.5; that of the second; 1 + 21/2 - 20 = -8.5.
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
        "final_value": np.array([[np.nan], [12.0], [np.nan]]),  # Arbitrary where no episode was cut short.
        "last_value": np.array([21.0]),
        "terminated": np.array([[False], [terminated], [False]]),
        "truncated": np.array([[False], [truncated], [False]]),
        "discount": 0.5,
        "gae_lambda": 0.5,
    }
    np.testing.assert_allclose(computed(rollout)[1][:, 0], advantages, rtol=1e-12)


@given(rollouts(), st.lists(st.integers(1, 11), max_size=3))
@settings(max_examples=60, deadline=None)
def test_discounted_sums_equal_a_plain_loop_however_the_steps_are_cut_into_rollouts(rollout, cuts):
    reward, done = rollout["reward"], rollout["terminated"]
    expected, so_far = np.empty_like(reward), rollout["last_value"].copy()
    for step, rewards in enumerate(reward):
        so_far = rollout["discount"] * so_far + rewards
        expected[step] = so_far
        so_far = np.where(done[step], 0, so_far)
    start, sums = tf.constant(rollout["last_value"]), []
    for rewards, dones in zip(np.split(reward, sorted(cuts)), np.split(done, sorted(cuts)), strict=True):
        if len(rewards):
            part, start = discounted_sums(tf.constant(rewards), tf.constant(dones), start, rollout["discount"])
            sums.append(part)
    np.testing.assert_allclose(np.concatenate(sums), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(start, so_far, rtol=1e-9, atol=1e-9)


def test_shapes_that_differ_are_refused():
    flag, number = tf.zeros([3, 2], tf.bool), tf.zeros([3, 2])
    with pytest.raises(ValueError, match="incompatible"):
        successor_values(number, tf.zeros([3, 1]), number[0], flag, flag)
    with pytest.raises(ValueError, match="incompatible"):
        generalized_advantages(number, tf.zeros([3, 1]), number, flag, 0.9, 0.9)
