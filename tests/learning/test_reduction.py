"""The identity of a single learner, and the learners of tests that exchange tensors."""

import numpy as np
import pytest
import tensorflow as tf

from agents.learning.reduction import SINGLE_LEARNER, Reducer
from tests.tensor_toys import LearnerGroup, PlainGraphReducer

STRUCTURE = {"kernel": tf.constant([1.0, 2.0]), "others": (tf.constant(3.0),)}


@pytest.mark.parametrize("method", ["mean", "sum"])
def test_a_single_learner_gets_its_own_tensors(method):
    assert isinstance(SINGLE_LEARNER, Reducer) and SINGLE_LEARNER.compiles
    assert getattr(SINGLE_LEARNER, method)(STRUCTURE) is STRUCTURE


def test_a_single_learner_adds_no_operation_to_the_graph():
    graph = tf.function(SINGLE_LEARNER.mean).get_concrete_function(tf.TensorSpec([])).graph
    assert {node.op for node in graph.as_graph_def().node} <= {"Placeholder", "Identity"}


def test_learners_of_a_group_get_means_and_sums():
    group = LearnerGroup(3)

    def reduce(index):
        reducer = group.reducers[index]
        structure = tf.nest.map_structure(lambda leaf: index * leaf, STRUCTURE)
        return reducer.mean(structure), reducer.sum(structure)

    for mean, total in group.run(*(lambda i=i: reduce(i) for i in range(3))):
        tf.nest.assert_same_structure(mean, STRUCTURE)
        for one, both, leaf in zip(*map(tf.nest.flatten, (mean, total, STRUCTURE)), strict=True):
            np.testing.assert_allclose(one, leaf)  # (0 + 1 + 2) / 3
            np.testing.assert_allclose(both, 3 * leaf)


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
