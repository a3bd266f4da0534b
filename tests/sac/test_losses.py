"""Losses of soft actor-critic against plain numpy."""

import numpy as np
import pytest
import tensorflow as tf

from agents.sac import losses

RANDOM = np.random.default_rng(0)
M = 5
WEIGHT = np.array([1, 1, 0, 1, 1], np.float32)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def close(tensor, expected):
    np.testing.assert_allclose(tensor, expected, rtol=1e-5, atol=1e-6)


def test_targets_of_means_take_the_smallest_critic():
    reward, next_values, log_prob = normal(M), normal(3, M, 1), normal(M)
    discount = np.array([0.9, 0, 0.81, 0.9, 0.9], np.float32)
    expected = reward + discount * (next_values.min(axis=0)[:, 0] - 0.3 * log_prob)
    found = losses.value_targets(reward, discount, next_values, log_prob, tf.constant(0.3), 0)
    close(found, expected[:, None])
    assert found[1, 0] == reward[1]  # Nothing follows a terminal state.


@pytest.mark.parametrize("dropped", [0, 2, 3])
def test_targets_of_quantiles_drop_the_largest(dropped):
    reward, next_values, log_prob = normal(M), normal(3, M, 4), normal(M)
    expected = []
    for index in range(M):
        pooled = np.sort(next_values[:, index].ravel())
        kept = pooled[: len(pooled) - 3 * dropped]
        expected.append(reward[index] + 0.9 * (kept - 0.3 * log_prob[index]))
    discount = np.full(M, 0.9, np.float32)
    found = losses.value_targets(reward, discount, next_values, log_prob, tf.constant(0.3), dropped)
    close(found, expected)


def test_critic_loss_of_means_is_half_the_squared_error_of_each():
    values, targets = normal(2, M, 1), normal(M, 1)
    squared = ((values[..., 0] - targets[:, 0]) ** 2).sum(axis=0)
    close(losses.critic_loss(values, targets, WEIGHT), 0.5 * np.average(squared, weights=WEIGHT))


def test_critic_loss_of_quantiles_is_the_quantile_huber_loss():
    values, targets = 2 * normal(2, M, 3), 2 * normal(M, 4)
    total = np.zeros(M)
    for critic in range(2):
        for index in range(M):
            for quantile in range(3):
                for target in targets[index]:
                    error = target - values[critic, index, quantile]
                    huber = abs(error) - 0.5 if abs(error) > 1 else 0.5 * error**2
                    level = (quantile + 0.5) / 3
                    total[index] += abs(level - (error < 0)) * huber / (2 * 3 * 4)
    close(losses.critic_loss(values, targets, WEIGHT), np.average(total, weights=WEIGHT))


@pytest.mark.parametrize("quantiles", [1, 4])
def test_policy_loss(quantiles):
    values, log_prob = normal(2, M, quantiles), normal(M)
    value = values.min(axis=0)[:, 0] if quantiles == 1 else values.mean(axis=(0, 2))
    expected = np.average(0.2 * log_prob - value, weights=WEIGHT)
    close(losses.policy_loss(values, log_prob, tf.constant(0.2), WEIGHT), expected)


def test_entropy_below_its_target_raises_the_coefficient():
    log_prob = normal(M)
    variable = tf.Variable(0.5)
    for target, sign in ((10.0, -1), (-10.0, 1)):
        with tf.GradientTape() as tape:
            loss = losses.entropy_loss(variable, log_prob, target, WEIGHT)
        close(loss, -0.5 * (np.average(log_prob, weights=WEIGHT) + target))
        assert np.sign(tape.gradient(loss, variable)) == sign


def test_no_element_counts_where_all_weights_are_zero():
    assert losses.weighted_mean(tf.constant(normal(M)), tf.zeros(M)) == 0
