import numpy as np
import tensorflow as tf

from agents.ppo.batch import Batch
from tests.ppo.linear_learner import N, as_batch, make_problem


def make_batch():
    return as_batch(make_problem()[1])


def test_fields_have_their_order():
    """It is that of the compiled update's loop variables; another one changes rounding."""
    assert Batch._fields == (
        "advantage", "is_first", "inputs", "old_log_prob", "old_parameters", "sample", "states",
        "target", "value", "valid", "start_parameters",
    )  # fmt: skip


def test_empty_fields_are_no_tensors():
    batch = make_batch()
    assert batch.is_first == () and batch.states == {} and batch.valid == ()
    assert batch.start_parameters == ()
    assert len(tf.nest.flatten(batch)) == len(Batch._fields) - 4 + len(batch.old_parameters) - 1


def test_minibatches_are_rows_of_all_tensors():
    batch, rows = make_batch(), tf.constant([5, 0, 7])
    minibatch = tf.function(
        lambda batch: tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), batch)
    )(batch)
    assert isinstance(minibatch, Batch)
    for taken, whole in zip(tf.nest.flatten(minibatch), tf.nest.flatten(batch), strict=True):
        assert whole.shape[0] == N
        np.testing.assert_array_equal(taken, whole.numpy()[[5, 0, 7]])
