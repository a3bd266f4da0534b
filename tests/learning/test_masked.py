import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from agents.learning.masked import flat_mask, is_mask, masked, masked_count, masked_mean
from agents.learning.normalization import RunningMoments
from agents.learning.reduction import Reducer
from agents.learning.returns import explained_variance, standardize


@hypothesis.given(strategies.lists(strategies.booleans(), min_size=1, max_size=12))
@hypothesis.settings(deadline=None, max_examples=40)
def test_means_and_counts_are_those_of_the_valid_rows(flags):
    valid = np.array(flags)
    values = np.random.default_rng(len(flags)).normal(size=[len(flags), 3]).astype(np.float32)
    mask = tf.constant(valid)
    assert masked_count(tf.constant(values), mask) == valid.sum()
    np.testing.assert_array_equal(masked(values, mask), np.where(valid[:, None], values, 0))
    expected = values[valid].mean(axis=0) if valid.any() else np.zeros(3)
    np.testing.assert_allclose(masked_mean(tf.constant(values), mask, axis=0), expected, 1e-5, 1e-6)


def test_without_a_mask_everything_is_valid():
    values = tf.constant([[1.0, 2.0], [3.0, 5.0]])
    assert not is_mask(()) and flat_mask(()) == ()
    assert masked(values, ()) is values
    assert masked_count(values, ()) == 2
    assert masked_mean(values, ()) == 2.75
    np.testing.assert_array_equal(masked_mean(values, (), axis=0), [2, 3.5])


def test_a_mask_of_any_shape_is_flattened():
    mask = tf.constant([[True, False], [False, False]])
    assert is_mask(mask)
    np.testing.assert_array_equal(flat_mask(mask), [True, False, False, False])


class Twins(Reducer):
    """Two learners; the other one has a single valid value, 5."""

    def __init__(self):
        self.shares = iter([5.0, 1.0])  # Of the sum, then of the count.

    def sum(self, tensors):
        return tensors + next(self.shares)


def test_the_mean_is_that_of_all_learners_valid_values():
    mean = masked_mean(tf.constant([1.0, 3.0, 9.0]), tf.constant([True, True, False]), Twins())
    assert float(mean) == pytest.approx((1 + 3 + 5) / 3)


def test_masked_statistics_equal_those_of_the_valid_part():
    random = np.random.default_rng(1)
    values, other = random.normal(size=[2, 40]).astype(np.float32)
    valid = random.random(40) < 0.7
    standardized = standardize(tf.constant(values), valid=tf.constant(valid)).numpy()
    part = values[valid]
    np.testing.assert_allclose(standardized[valid], (part - part.mean()) / part.std(), rtol=1e-4)
    assert not standardized[~valid].any()
    expected = 1 - np.var(part - other[valid]) / np.var(part)
    got = explained_variance(tf.constant(other), tf.constant(values), valid=tf.constant(valid))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    moments = RunningMoments(1)
    for rows in (np.zeros(40, bool), valid, ~valid):  # The first update has no valid value.
        moments.update(tf.constant(values[:, None]), tf.constant(rows))
    np.testing.assert_allclose(moments.mean, [values.mean()], rtol=1e-6)
    np.testing.assert_allclose(moments.variance(), [values.var()], rtol=1e-6)
    assert moments.count == 40
