import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.ppo import objectives

NUMBER = st.floats(-3, 3)


def columns(*strategies):
    """Rows of numbers of equal lengths."""
    return st.lists(st.tuples(*strategies), min_size=1, max_size=8).map(
        lambda rows: np.array(rows, np.float64).T
    )


@given(columns(NUMBER, NUMBER, NUMBER), st.floats(0.01, 1) | st.just(math.inf))
@settings(max_examples=60, deadline=None)
def test_policy_loss_equals_a_plain_loop(rows, clip_ratio):
    total = 0.0
    for log_prob, old_log_prob, advantage in rows.T:
        ratio = math.exp(log_prob - old_log_prob)
        total += min(ratio * advantage, min(max(ratio, 1 - clip_ratio), 1 + clip_ratio) * advantage)
    loss = objectives.clipped_policy_loss(*map(tf.constant, rows), clip_ratio)
    np.testing.assert_allclose(loss, -total / rows.shape[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "has_gradient"),
    [
        (0.5, 1.0, False),
        (0.5, -1.0, True),
        (-0.5, 1.0, True),
        (-0.5, -1.0, False),
        (0.1, 1.0, True),
        (0.1, -1.0, True),
    ],
)
def test_policy_loss_has_no_gradient_beyond_the_clipping_range(log_ratio, advantage, has_gradient):
    log_prob = tf.Variable([log_ratio])
    with tf.GradientTape() as tape:
        loss = objectives.clipped_policy_loss(
            log_prob, tf.zeros([1]), tf.constant([advantage]), 0.2
        )
    expected = -advantage * math.exp(log_ratio) if has_gradient else 0.0
    np.testing.assert_allclose(tape.gradient(loss, log_prob), [expected], rtol=1e-5)


@pytest.mark.parametrize(
    ("kl", "loss", "gradient"),
    [
        ([0.1, 0.3], 2 * 0.2, 2),
        ([0.5, 0.5], 2 * 0.5, 2),
        ([0.4, 1.0], 2 * 0.7 + 10 * 0.2**2, 2 + 2 * 10 * 0.2),
    ],
)
def test_kl_penalty_has_a_square_above_the_cutoff_of_the_mean(kl, loss, gradient):
    kl = tf.Variable(kl)
    with tf.GradientTape() as tape:
        penalty = objectives.kl_penalty(
            tf.convert_to_tensor(kl), tf.constant(2.0), cutoff=0.5, cutoff_coef=10.0
        )
    np.testing.assert_allclose(penalty, loss, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(penalty, kl), [gradient / 2] * 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("kl", "adapted"), [(0.014, 4.5), (0.0129, 3.0), (0.0071, 3.0), (0.0069, 2.0), (0.0, 2.0)]
)
def test_penalty_is_adapted_outside_of_a_range_around_the_target(kl, adapted):
    np.testing.assert_allclose(
        objectives.adapted_penalty(tf.constant(3.0), tf.constant(kl), 0.01), adapted, rtol=1e-6
    )


@given(columns(NUMBER, NUMBER, NUMBER), st.floats(0, 2))
@settings(max_examples=60, deadline=None)
def test_value_loss_equals_a_plain_loop(rows, value_clip):
    total = 0.0
    for value, old_value, target in rows.T:
        error = (value - target) ** 2
        if value_clip:
            near = old_value + min(max(value - old_value, -value_clip), value_clip)
            error = max(error, (near - target) ** 2)
        total += error / 2
    loss = objectives.value_loss(*map(tf.constant, rows), value_clip)
    np.testing.assert_allclose(loss, total / rows.shape[1], rtol=1e-9, atol=1e-12)


def test_kl_estimate_agrees_with_the_divergence_of_two_gaussians():
    sample = np.random.default_rng(0).normal(size=200_000)
    log_prob, old_log_prob = -((sample - 0.3) ** 2) / 2, -(sample**2) / 2
    estimate = objectives.approximate_kl(tf.constant(log_prob), tf.constant(old_log_prob))
    np.testing.assert_allclose(estimate, 0.3**2 / 2, rtol=0.02)


def test_different_shapes_raise():
    with pytest.raises(ValueError, match="incompatible"):
        objectives.clipped_policy_loss(tf.zeros([3]), tf.zeros([3]), tf.zeros([3, 1]), 0.2)
    with pytest.raises(ValueError, match="incompatible"):
        objectives.value_loss(tf.zeros([3]), tf.zeros([3]), tf.zeros([3, 1]))
    with pytest.raises(ValueError, match="rank 0"):
        objectives.kl_penalty(tf.zeros([3]), tf.zeros([3]), 0.1, 1.0)
