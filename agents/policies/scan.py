"""A loop over the steps of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Tensors = tuple[tf.Tensor, ...]


def scan(
    step: Callable[[Any, Tensors], tuple[Tensors, Tensors]],
    arrays: Any,
    state: Tensors,
    outputs: Tensors,
    reverse: bool = False,
) -> tuple[Tensors, Tensors]:
    """Runs `step` over the elements of arrays.

    Each element is taken in the iteration before. Where XLA takes it in the loop that computes with
    it, it does not use the processor's vectors, and a cell's step takes twice as long.

    Args:
      step: Maps elements of the arrays and a state to the next state and outputs.
      arrays: A structure of tensors [L, ...].
      state: The state before the first step.
      outputs: Tensors of the shapes of a step's outputs, float32.
      reverse: Whether to begin with the last elements.

    Returns:
      The last state, and the outputs of all steps, [L, ...] each.
    """
    length = tf.nest.flatten(arrays)[0].shape[0]

    def index(count: tf.Tensor) -> tf.Tensor:
        return length - 1 - count if reverse else count

    def elements(count: tf.Tensor) -> Any:
        return tf.nest.map_structure(lambda array: array[index(count)], arrays)

    def body(
        count: tf.Tensor, here: Any, state: Tensors, written: tuple[tf.TensorArray, ...]
    ) -> tuple[tf.Tensor, Any, Tensors, tuple[tf.TensorArray, ...]]:
        state, outputs = step(here, state)
        pairs = zip(written, outputs, strict=True)
        written = tuple(array.write(index(count), output) for array, output in pairs)
        return count + 1, elements(tf.minimum(count + 1, length - 1)), state, written

    empty = tuple(tf.TensorArray(tf.float32, length, element_shape=one.shape) for one in outputs)
    _, _, state, written = tf.while_loop(
        lambda count, *_: count < length,
        body,
        (tf.constant(0), elements(tf.constant(0)), state, empty),
        maximum_iterations=length,
    )
    return state, tuple(array.stack() for array in written)
