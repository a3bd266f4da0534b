"""Inputs and gradients for comparisons of distributions with references."""

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays


def floats(low, high, *shape):
    """Strategy for float32 arrays; TensorFlow flushes subnormal numbers to zero."""
    elements = st.floats(low, high, width=32, allow_subnormal=False)
    return arrays.arrays(np.float32, shape, elements=elements)


def gradients(function, *arguments):
    """Gradients of the sum of `function(*arguments)` by its arguments."""
    variables = [tf.Variable(argument) for argument in arguments]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(function(*variables))
    return tape.gradient(total, variables)
