"""A Python function in the graph, called with as little overhead as TensorFlow allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def private_registry() -> tuple[Any, type]:
    """Returns TensorFlow's registry of Python functions, and the type of those that take tensors.

    Neither is part of TensorFlow's public interface; see `PythonCall`.

    Returns:
      `(None, object)` where this version of TensorFlow lacks them.
    """
    try:
        from tensorflow.python.ops import script_ops

        return script_ops._py_funcs, script_ops.EagerFunc
    except (ImportError, AttributeError):
        return None, object


_REGISTRY, _TensorFunction = private_registry()


class PythonCall(_TensorFunction):  # type: ignore[valid-type, misc]
    """A Python function of arrays that returns one array, as an operation of the graph.

    Like `tf.numpy_function`, which parses NumPy's version number for every result of such a
    function in TensorFlow 2.18 to 2.21: 11 us, a third of the call. Registered as a
    function of tensors, it is not parsed, and may still return an array. Without that registry
    this is `tf.numpy_function`.
    """

    def __init__(self, function: Callable[..., np.ndarray]):
        """Wraps a function; this object has to live as long as graphs that call it."""
        self._function = function

    def operation(
        self, inputs: Sequence[tf.Tensor], dtype: tf.DType, shape: Sequence[int]
    ) -> tf.Tensor:
        """Calls the function with the inputs as arrays.

        Args:
          inputs: Tensors.
          dtype: Type of the array that the function returns. An aligned array is not copied.
          shape: Shape of that array.
        """
        if tf.executing_eagerly() or _REGISTRY is None:
            result = tf.numpy_function(self._function, inputs, dtype)
        else:
            with tf.device("CPU:0"):
                token = _REGISTRY.insert(self)
                result = tf.raw_ops.PyFunc(input=list(inputs), token=token, Tout=[dtype])[0]
        result.set_shape(shape)
        return result

    def __call__(self, device: Any, token: Any, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """Called by the registry.

        Raises:
          StopIteration: The function raised. The graph call raises `tf.errors.OutOfRangeError` then;
            of any other exception TensorFlow would log the traceback, twice.
        """
        try:
            return self._function(*inputs)
        except BaseException as error:
            raise StopIteration(f"{type(error).__name__}: {error}") from None
