import numpy as np
import pytest
import tensorflow as tf

from agents.learning.schedules import KLAdaptive, make_schedule


@pytest.mark.parametrize(
    ("name", "expected"), [("constant", [0.3, 0.3, 0.3]), ("linear", [0.3, 0.225, 0.0])]
)
def test_schedules_of_progress(name, expected):
    schedule = make_schedule(name, 0.3)
    schedule.observe(tf.constant(100.0), tf.constant(True))
    np.testing.assert_allclose(
        [schedule.value(tf.constant(progress)) for progress in (0.0, 0.25, 1.0)],
        expected,
        rtol=1e-6,
    )
    assert schedule.variables() == {}


def after(rate, *epochs, kl_target=0.01):
    """The learning rate after epochs, lists of the KL divergences of their minibatches."""
    schedule = make_schedule("kl", rate, kl_target)
    for epoch in epochs:
        for index, kl in enumerate(epoch):
            schedule.observe(tf.constant(kl), tf.constant(index == len(epoch) - 1))
    return float(schedule.value(tf.constant(0.0)))


@pytest.mark.parametrize(
    ("epoch", "rate"),
    [
        ([0.021], 1e-3 / 1.5),
        ([0.019], 1e-3),
        ([0.0051], 1e-3),
        ([0.0049], 1.5e-3),
        ([0.0, 0.001, 0.08], 1e-3 / 1.5),
        ([0.03, 0.03, 0.0], 1e-3),
        ([0.02, 0.0, 0.0, 0.0, 0.0], 1.5e-3),
    ],
)
def test_the_rate_follows_the_mean_divergence_of_an_epoch(epoch, rate):
    np.testing.assert_allclose(after(1e-3, epoch), rate, rtol=1e-6)


def test_divergences_of_previous_epochs_do_not_count():
    np.testing.assert_allclose(after(1e-3, [1.0, 1.0], [0.01, 0.01], [0.0]), 1e-3, rtol=1e-6)
    np.testing.assert_allclose(after(1e-3, [1.0], [1.0]), 1e-3 / 2.25, rtol=1e-6)


def test_the_rate_stays_within_limits():
    np.testing.assert_allclose(after(1e-5, *[[1.0]] * 8), 1e-6, rtol=1e-6)
    np.testing.assert_allclose(after(5e-3, *[[0.0]] * 8), 1e-2, rtol=1e-6)
    # One that starts outside is neither lowered to go faster nor raised to go slower.
    np.testing.assert_allclose([after(0.05, [0.0]), after(0.05, [1.0])], [0.05, 0.05 / 1.5], 1e-6)
    np.testing.assert_allclose([after(1e-7, [1.0]), after(1e-7, [0.0])], [1e-7, 1.5e-7], 1e-6)


def test_the_rate_changes_at_the_end_of_an_epoch_and_checkpoints_hold_it():
    schedule = KLAdaptive(1e-3, 0.01)
    schedule.observe(tf.constant(9.0), tf.constant(False))
    (rate,) = schedule.variables().values()
    np.testing.assert_allclose(rate, 1e-3)
    rate.assign(0.005)
    np.testing.assert_allclose(schedule.value(tf.constant(0.9)), 0.005)
