import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from agents.learning.masked import (
    flat_mask,
    is_mask,
    masked,
    masked_count,
    masked_mean,
    outcome_mask,
    steps_before,
)
from agents.learning.normalization import RunningMoments
from agents.learning.reduction import Reducer
from agents.learning.returns import explained_variance, standardize
from tests.tensor_toys import LearnerGroup


@hypothesis.given(st.lists(st.booleans(), min_size=1, max_size=12))
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
    values = tf.constant([[1.0, 2.0, 3.0], [3.0, 5.0, 7.0]])
    assert not is_mask(()) and flat_mask(()) == ()
    assert masked(values, ()) is values
    assert masked_count(values, ()) == 2
    assert masked_mean(values, ()) == 3.5
    np.testing.assert_array_equal(masked_mean(values, (), axis=0), [2, 3.5, 5])


def test_steps_with_an_outcome_are_those_in_which_nothing_was_restarted():
    restarted = tf.constant([[False, True], [True, False], [False, False]])
    np.testing.assert_array_equal(outcome_mask(restarted), [[1, 0], [0, 1], [1, 1]])
    assert outcome_mask(()) == ()


def test_steps_before_those_of_a_mask():
    mask = tf.constant([[True, False], [False, True], [True, False], [False, True]])
    np.testing.assert_array_equal(steps_before(mask), [[0, 1], [1, 0], [0, 1], [0, 0]])


def test_a_mask_of_any_shape_is_flattened():
    mask = tf.constant([[True, False], [False, False]])
    assert is_mask(mask)
    np.testing.assert_array_equal(flat_mask(mask), [True, False, False, False])


@st.composite
def masked_values(draw):
    """Values, a mask of their shape, and some of their axes or None for all."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    axes = st.sets(st.integers(0, len(shape) - 1), min_size=1)
    axis = draw(st.none() | axes.map(lambda chosen: tuple(sorted(chosen))))
    return random.normal(size=shape), random.random(shape) < draw(st.floats(0, 1)), axis


@hypothesis.given(masked_values(), st.booleans())
@hypothesis.settings(deadline=None, max_examples=80)
def test_means_over_any_axes_equal_numpy(drawn, keepdims):
    values, valid, axis = drawn
    tensor = tf.constant(values)
    whole = masked_mean(tensor, (), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(whole, values.mean(axis, keepdims=keepdims), 1e-9, 1e-12)
    got = masked_mean(tensor, tf.constant(valid), axis=axis, keepdims=keepdims)
    numbers = np.ma.masked_array(values, ~valid).mean(axis=axis, keepdims=keepdims)
    expected = np.ma.filled(numbers, 0.0)  # Where nothing is valid.
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, 1e-9, 1e-12)


@hypothesis.given(masked_values(), st.booleans())
@hypothesis.settings(deadline=None, max_examples=80)
def test_minibatches_are_standardized_on_their_own(drawn, is_masked):
    values, valid, _ = drawn
    axes = tuple(range(1, values.ndim))  # As of minibatches [minibatches, M, ...].
    hypothesis.assume(axes)
    valid = valid if is_masked else np.ones_like(valid)
    mask = tf.constant(valid) if is_masked else ()
    got = standardize(tf.constant(values), valid=mask, axis=axes).numpy()
    assert got.shape == values.shape
    for row, numbers, flags in zip(got, values, valid, strict=True):
        part = numbers[flags]
        if part.size > 1:
            expected = (part - part.mean()) / (part.std() + 1e-8)
            np.testing.assert_allclose(row[flags], expected, 1e-6, 1e-9)
        assert not row[~flags].any()
        assert np.isfinite(row).all()


class Twins(Reducer):
    """Two learners; the other one has a single valid value, 5."""

    num_learners = 2

    def sum(self, tensors):
        total, count = tensors
        return total + 5.0, count + 1.0


def test_the_mean_is_that_of_all_learners_valid_values():
    mean = masked_mean(tf.constant([1.0, 3.0, 9.0]), tf.constant([True, True, False]), Twins())
    assert float(mean) == pytest.approx((1 + 3 + 5) / 3)


def test_learners_standardize_each_minibatch_of_all():
    random, group = np.random.default_rng(3), LearnerGroup()
    halves = random.normal(size=[2, 3, 4, 2]) * [[[[1]]], [[[5]]]]  # [learners, minibatches, M, L]
    valid = random.random(halves.shape) < 0.7

    def run(rank):
        half, flags = tf.constant(halves[rank]), tf.constant(valid[rank])
        return standardize(half, group.reducers[rank], flags, axis=(1, 2)).numpy()

    got = np.stack(group.run(lambda: run(0), lambda: run(1)))
    for minibatch in range(3):
        part = halves[:, minibatch][valid[:, minibatch]]
        expected = (part - part.mean()) / part.std()
        np.testing.assert_allclose(got[:, minibatch][valid[:, minibatch]], expected, rtol=1e-6)
    assert not got[~valid].any()


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
