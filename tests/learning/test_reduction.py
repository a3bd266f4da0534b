"""The identity of a single learner, and the learners of tests that exchange tensors."""

import numpy as np
import pytest
import tensorflow as tf

from agents.learning.reduction import SINGLE_LEARNER, Reducer, pack, unpack
from tests.fingerprint import fingerprint
from tests.tensor_toys import LearnerGroup, PlainGraphReducer

STRUCTURE = {"kernel": tf.constant([1.0, 2.0]), "others": (tf.constant(3.0),)}


@pytest.mark.parametrize("method", ["mean", "sum", "gather"])
def test_a_single_learner_gets_its_own_tensors(method):
    assert isinstance(SINGLE_LEARNER, Reducer) and SINGLE_LEARNER.compiles
    assert getattr(SINGLE_LEARNER, method)(STRUCTURE) is STRUCTURE


def test_a_single_learner_has_everything_and_raises_as_tensorflow_does():
    variable, tensor = tf.Variable(3.0), tf.constant([1.0, 2.0])
    assert (SINGLE_LEARNER.num_learners, SINGLE_LEARNER.rank) == (1, 0)
    assert SINGLE_LEARNER.own(tensor) is tensor
    SINGLE_LEARNER.copy_from_chief({"number": variable})
    assert float(variable) == 3
    with pytest.raises(tf.errors.InvalidArgumentError), SINGLE_LEARNER.raising():
        tf.debugging.assert_equal(variable, 4.0)


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


@pytest.mark.parametrize("axis", [0, 1])
def test_a_learner_owns_its_part_of_what_is_gathered(axis):
    group = LearnerGroup(3)
    parts = {
        "numbers": np.arange(3 * 2 * 4, dtype=np.float32).reshape(3, 2, 4),
        "flags": np.random.default_rng(0).random([3, 2, 2]) < 0.5,
    }

    def gather(rank):
        reducer = group.reducers[rank]
        gathered = reducer.gather({name: tf.constant(parts[name][rank]) for name in parts}, axis)
        return gathered, {name: reducer.own(gathered[name], axis) for name in parts}

    for rank, (gathered, own) in enumerate(group.run(*(lambda r=r: gather(r) for r in range(3)))):
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
    gathered = tf.function(reducer.gather, autograph=False)(STRUCTURE)
    tf.nest.map_structure(np.testing.assert_array_equal, gathered, STRUCTURE)
    with pytest.raises(tf.errors.OpError):
        tf.function(reducer.sum, autograph=False, jit_compile=True)(STRUCTURE)


def test_tensors_are_packed_one_after_another():
    tensors = [tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant(5.0), tf.constant([6.0])]
    packed = pack(tensors)
    np.testing.assert_array_equal(packed, [1, 2, 3, 4, 5, 6])
    for part, tensor in zip(unpack(packed, [one.shape for one in tensors]), tensors, strict=True):
        np.testing.assert_array_equal(part, tensor)
