import importlib.util
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ops
from tensorflow.python.ops import script_ops

from agents.graph import python_call
from agents.graph.python_call import PythonCall, private_registry


def fake_script_ops(**names):
    """A module in place of TensorFlow's private one."""
    module = types.ModuleType("script_ops")
    vars(module).update(names)
    return module


def reload_with(monkeypatch, fake):
    """Loads `python_call` again, with another module in place of TensorFlow's private one."""
    monkeypatch.setattr(ops, "script_ops", fake)
    spec = importlib.util.find_spec(python_call.__name__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["TensorFlow's registry", "no registry", "eager"])
def call_of(request, monkeypatch):
    """Creates calls and the function that runs them: with this TensorFlow's registry or without.

    Returns `(PythonCall, run)`, where `run` calls a function in a graph, or eagerly.
    """
    if request.param == "no registry":
        fake = reload_with(monkeypatch, fake_script_ops())
        return fake.PythonCall, lambda function: tf.function(function, autograph=False)()
    if request.param == "eager":
        return PythonCall, lambda function: function()
    return PythonCall, lambda function: tf.function(function, autograph=False)()


def test_returns_the_array_of_the_function(call_of):
    make_call, run = call_of
    given = []

    def double(one, other):
        given.append((one.tolist(), other.tolist()))
        return (one + one).astype(dtype)

    call = make_call(double)
    inputs = [tf.constant([[1.0, 0.0]]), tf.constant(3)]
    for dtype in (np.uint8, np.float64, np.int64, np.bool_):
        result = run(lambda dtype=dtype: call.operation(inputs, tf.as_dtype(dtype), [1, 2]))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, np.array([[2, 0]], dtype))
    assert given == [([[1.0, 0.0]], 3)] * 4


def test_is_called_in_every_iteration_of_a_loop_with_an_array_of_its_own(call_of):
    make_call, run = call_of
    counts = iter(range(1, 6))
    call = make_call(lambda step: np.full(64, next(counts), np.int32))

    def collect():
        stored = tf.TensorArray(tf.int32, 5, element_shape=[64])
        _, stored = tf.while_loop(
            lambda step, _: step < 5,
            lambda step, stored: (
                step + 1,
                stored.write(step, call.operation([step], tf.int32, [64])),
            ),
            (tf.constant(0), stored),
        )
        return stored.stack()

    np.testing.assert_array_equal(run(collect)[:, 0], [1, 2, 3, 4, 5])


def test_an_exception_of_the_function_ends_the_graph_call():
    def fail():
        raise KeyError("a key")

    call = PythonCall(fail)
    with pytest.raises(tf.errors.OpError, match="a key"):
        tf.function(lambda: call.operation([], tf.int32, []), autograph=False)()


def test_an_array_of_a_wrong_type_is_noticed():
    call = PythonCall(lambda: np.zeros(3, np.float64))
    with pytest.raises(tf.errors.OpError):
        tf.function(lambda: call.operation([], tf.int32, [3]), autograph=False)()


# TensorFlow's private names.


def test_this_tensorflow_has_the_private_names():
    registry, function = private_registry()
    assert registry is script_ops._py_funcs
    assert function is script_ops.EagerFunc
    assert issubclass(PythonCall, script_ops.EagerFunc)


def test_without_both_private_names_there_is_no_registry(monkeypatch):
    names = {"_py_funcs": script_ops._py_funcs, "EagerFunc": script_ops.EagerFunc}
    for name in names:
        monkeypatch.setattr(ops, "script_ops", fake_script_ops(**{name: names[name]}))
        assert private_registry() == (None, object)
    monkeypatch.delattr(ops, "script_ops")
    monkeypatch.setitem(sys.modules, "tensorflow.python.ops.script_ops", None)
    assert private_registry() == (None, object)


def test_without_a_registry_calls_are_numpy_functions(monkeypatch):
    fake = reload_with(monkeypatch, fake_script_ops())
    calls = []

    def numpy_function(function, inputs, dtype):
        calls.append(function)
        return tf.constant([7], dtype)

    monkeypatch.setattr(tf, "numpy_function", numpy_function)
    call = fake.PythonCall(len)
    assert tf.function(lambda: call.operation([], tf.int32, [1]), autograph=False)().numpy() == 7
    assert calls == [len]
    assert not isinstance(call, script_ops.EagerFunc)
