import numpy as np
import pytest
import tensorflow as tf

from agents.tools import python_call
from agents.tools.python_call import PythonCall


@pytest.fixture(params=["TensorFlow's registry", "no registry", "eager"])
def run(request, monkeypatch):
    """Calls operations as graphs do, with the registry of this TensorFlow or as if it had none, or eagerly."""
    if request.param == "no registry":
        monkeypatch.setattr(python_call, "_REGISTRY", None)
    if request.param == "eager":
        return lambda function: function()
    return lambda function: tf.function(function, autograph=False)()


@pytest.mark.parametrize("dtype", [np.uint8, np.float64, np.int64, np.bool_])
def test_gives_what_the_function_returns(run, dtype):
    given = []

    def double(one, other):
        given.append([one.copy(), other.copy()])
        return (one + one).astype(dtype)

    call = PythonCall(double)
    inputs = [tf.constant([[1.0, 0.0]]), tf.constant(3)]
    result = run(lambda: call.operation(inputs, tf.as_dtype(dtype), [1, 2]))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.array([[2, 0]], dtype))
    assert len(given) == 1
    np.testing.assert_array_equal(given[0][0], [[1.0, 0.0]])
    assert given[0][1] == 3


def test_is_called_in_every_turn_of_a_loop_with_its_own_array(run):
    counts = iter(range(1, 6))
    call = PythonCall(lambda step: np.full(64, next(counts), np.int32))

    def collect():
        stored = tf.TensorArray(tf.int32, 5, element_shape=[64])
        _, stored = tf.while_loop(
            lambda step, _: step < 5,
            lambda step, stored: (step + 1, stored.write(step, call.operation([step], tf.int32, [64]))),
            (tf.constant(0), stored),
        )
        return stored.stack()

    np.testing.assert_array_equal(run(collect)[:, 0], [1, 2, 3, 4, 5])


def test_what_the_function_raises_ends_the_graph_call():
    def fail():
        raise KeyError("a key")

    call = PythonCall(fail)
    with pytest.raises(tf.errors.OpError, match="a key"):
        tf.function(lambda: call.operation([], tf.int32, []), autograph=False)()


def test_what_is_returned_in_a_wrong_type_is_noticed():
    call = PythonCall(lambda: np.zeros(3, np.float64))
    with pytest.raises(tf.errors.OpError):
        tf.function(lambda: call.operation([], tf.int32, [3]), autograph=False)()
