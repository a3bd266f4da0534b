"""Reductions over valid steps; the identity of a single learner, and the learners of tests."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from agents.learning.reduction import SINGLE_LEARNER, Reducer, masked, masked_mean
from agents.learning.returns import explained_variance, standardize
from tests.fingerprint import fingerprint
from tests.tensor_toys import LearnerGroup, PlainGraphReducer

STRUCTURE = {"kernel": tf.constant([1.0, 2.0]), "others": (tf.constant(3.0),)}


@st.composite
def masked_values(draw):
    """Values, a mask of their shape, and some of their axes or None for all."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    axes = st.sets(st.integers(0, len(shape) - 1), min_size=1)
    axis = draw(st.none() | axes.map(lambda chosen: tuple(sorted(chosen))))
    return random.normal(size=shape), random.random(shape) < draw(st.floats(0, 1)), axis


@hypothesis.given(masked_values(), st.booleans())
@hypothesis.settings(deadline=None, max_examples=60)
def test_means_over_any_axes_equal_numpy(drawn, keepdims):
    values, valid, axis = drawn
    tensor = tf.constant(values)
    assert masked(tensor, ()) is tensor
    np.testing.assert_array_equal(masked(tensor, tf.constant(valid)), np.where(valid, values, 0))
    whole = masked_mean(tensor, (), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(whole, values.mean(axis, keepdims=keepdims), 1e-9, 1e-12)
    got = masked_mean(tensor, tf.constant(valid), axis=axis, keepdims=keepdims)
    numbers = np.ma.masked_array(values, ~valid).mean(axis=axis, keepdims=keepdims)
    expected = np.ma.filled(numbers, 0.0)  # Where nothing is valid.
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, 1e-9, 1e-12)


def test_a_mask_of_rows_applies_to_their_numbers():
    values, valid = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]]), tf.constant([1, 0, 1]) > 0
    np.testing.assert_array_equal(masked(values, valid), [[1, 2], [0, 0], [5, 9]])
    np.testing.assert_allclose(masked_mean(values, valid, axis=0), [3, 5.5])


@hypothesis.given(masked_values(), st.booleans())
@hypothesis.settings(deadline=None, max_examples=60)
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


def test_the_explained_variance_is_that_of_valid_steps():
    random = np.random.default_rng(1)
    target, value = random.normal(size=[2, 40]).astype(np.float32)
    valid = random.random(40) < 0.7
    expected = 1 - np.var((target - value)[valid]) / np.var(target[valid])
    got = explained_variance(tf.constant(value), tf.constant(target), valid=tf.constant(valid))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


# Learners.


def test_a_single_learner_keeps_its_tensors_and_raises_as_tensorflow_does():
    variable, tensor = tf.Variable(3.0), tf.constant([1.0, 2.0])
    assert isinstance(SINGLE_LEARNER, Reducer) and SINGLE_LEARNER.compiles
    assert (SINGLE_LEARNER.num_learners, SINGLE_LEARNER.rank) == (1, 0)
    for method in (SINGLE_LEARNER.mean, SINGLE_LEARNER.sum, SINGLE_LEARNER.gather):
        assert method(STRUCTURE) is STRUCTURE
    assert SINGLE_LEARNER.own(tensor) is tensor
    SINGLE_LEARNER.copy_from_chief({"number": variable})
    assert float(variable) == 3
    with pytest.raises(tf.errors.InvalidArgumentError), SINGLE_LEARNER.raising():
        tf.debugging.assert_equal(variable, 4.0)


@pytest.mark.parametrize("axis", [0, 1])
def test_learners_of_a_group_reduce_and_own_their_parts(axis):
    group = LearnerGroup(3)
    parts = {
        "numbers": np.arange(3 * 2 * 4, dtype=np.float32).reshape(3, 2, 4),
        "flags": np.random.default_rng(0).random([3, 2, 2]) < 0.5,
    }

    def reduce(rank):
        reducer = group.reducers[rank]
        numbers = {"numbers": tf.constant(parts["numbers"][rank])}
        gathered = reducer.gather({name: tf.constant(parts[name][rank]) for name in parts}, axis)
        own = {name: reducer.own(gathered[name], axis) for name in parts}
        return reducer.mean(numbers), reducer.sum(numbers), gathered, own

    results = group.run(*(lambda rank=rank: reduce(rank) for rank in range(3)))
    for rank, (mean, total, gathered, own) in enumerate(results):
        np.testing.assert_allclose(mean["numbers"], parts["numbers"].mean(axis=0))
        np.testing.assert_allclose(total["numbers"], parts["numbers"].sum(axis=0))
        for name, part in parts.items():
            np.testing.assert_array_equal(gathered[name], np.concatenate(part, axis))
            np.testing.assert_array_equal(own[name], part[rank])


def test_learners_of_a_group_begin_as_the_chief():
    group = LearnerGroup()
    variables = [
        {"step": tf.Variable(5 + rank, dtype=tf.int64), "kernel": tf.Variable([0.5 * rank, np.nan])}
        for rank in range(2)
    ]
    group.run(*(lambda r=r: group.reducers[r].copy_from_chief(variables[r]) for r in range(2)))
    assert fingerprint(variables[0]) == fingerprint(variables[1])
    assert int(variables[1]["step"]) == 5


def test_the_error_of_a_learner_ends_the_others():
    group = LearnerGroup()

    def fail():
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        group.run(fail, lambda: group.reducers[1].mean(tf.constant(1.0)))


def test_reducers_that_communicate_do_not_compile():
    reducer = PlainGraphReducer()
    assert not reducer.compiles
    reduce = tf.function(reducer.mean, autograph=False)
    tf.nest.map_structure(np.testing.assert_array_equal, reduce(STRUCTURE), STRUCTURE)
    with pytest.raises(tf.errors.OpError):
        tf.function(reducer.sum, autograph=False, jit_compile=True)(STRUCTURE)
