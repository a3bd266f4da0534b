"""Python in the middle of a graph, as quickly as TensorFlow can call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import script_ops

# Neither is part of TensorFlow's public interface; `PythonCall` says what they are for.
_REGISTRY = getattr(script_ops, "_py_funcs", None)
_FunctionOfTensors: Any = getattr(script_ops, "EagerFunc", object)


class PythonCall(_FunctionOfTensors):
    """A Python function of arrays, returning one array, as an operation of the graph; like `tf.numpy_function`.

    TensorFlow 2.18 to 2.21 parses NumPy's version number whenever it looks at what such a function returned: 11 us, a
    third of the call. It does not where its registry takes the function for one of tensors, though what is returned
    may be an array all the same. Should that registry be gone, this is `tf.numpy_function`.
    """

    def __init__(self, function: Callable[..., np.ndarray]):
        """Wraps `function`; this object has to live as long as graphs with it."""
        self._function = function

    def operation(self, inputs: Sequence[tf.Tensor], dtype: tf.DType, shape: Sequence[int]) -> tf.Tensor:
        """Calls the function with the inputs as arrays.

        Args:
          inputs: Tensors.
          dtype: Of what the function returns. An aligned array is taken over without copying.
          shape: Likewise.
        """
        if tf.executing_eagerly() or _REGISTRY is None or _FunctionOfTensors is object:
            result = tf.numpy_function(self._function, inputs, dtype)
        else:
            with tf.device("CPU:0"):
                result = tf.raw_ops.PyFunc(input=list(inputs), token=_REGISTRY.insert(self), Tout=[dtype])[0]
        result.set_shape(shape)
        return result

    def __call__(self, device: Any, token: Any, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """What the registry calls."""
        return self._function(*inputs)
