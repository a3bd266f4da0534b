"""Memory of an episode: recurrent cells, one step at a time or over whole sequences."""

from __future__ import annotations

import keras
import tensorflow as tf

State = tuple[tf.Tensor, ...]


class Recurrent:
    """A GRU (Cho et al., 2014, arXiv 1406.1078) or LSTM (Hochreiter and Schmidhuber, 1997).

    Its state is a tuple of tensors [N, U], zero at the beginning of an episode. It computes in float32 always: errors
    of a state add up over an episode.
    """

    def __init__(self, kind: str, features: int, units: int, name: str):
        """Makes the weights.

        Args:
          kind: `gru` or `lstm`.
          features: Length of what it takes in, F.
          units: Length of what it gives, U.
          name: Of the weights.
        """
        cells = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}
        self._cell = cells[kind](units, name=name, dtype="float32")
        self._cell.build([None, features])
        self._sizes = tf.nest.flatten(self._cell.state_size)
        self.weights = self._cell.weights

    def zero_state(self, number: int) -> State:
        """States [number, U] at the beginning of episodes."""
        return tuple(tf.zeros([number, size]) for size in self._sizes)

    def step(self, features: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
        """From features [N, F] and the state before them to what it gives [N, U], and the state after them."""
        output, after = self._cell(features, list(state))
        return output, tuple(tf.nest.flatten(after))

    def unroll(self, features: tf.Tensor, state: State, begins: tf.Tensor) -> tuple[tf.Tensor, State]:
        """Goes through whole sequences.

        Args:
          features: float32 [L, N, F].
          state: Before the first step, [N, U] each.
          begins: bool [L, N], whether a step is the first of an episode: the state before it is zero then.

        Returns:
          What it gives, float32 [L, N, U], and the states after each step, [L, N, U] each.
        """
        length, number = features.shape[:2]

        def one_step(index: tf.Tensor, state: State, arrays: tuple[tf.TensorArray, ...]) -> tuple:
            state = reset_state(state, begins[index])
            output, state = self.step(features[index], state)
            written = (array.write(index, value) for array, value in zip(arrays, (output, *state), strict=True))
            return index + 1, state, tuple(written)

        sizes = [self._cell.units, *self._sizes]
        arrays = tuple(tf.TensorArray(tf.float32, length, element_shape=[number, size]) for size in sizes)
        _, _, arrays = tf.while_loop(
            lambda index, *_: index < length, one_step, (tf.constant(0), state, arrays), maximum_iterations=length
        )
        outputs, *states = (array.stack() for array in arrays)
        return outputs, tuple(states)


def reset_state(state: State, mask: tf.Tensor) -> State:
    """State [..., N, U] with zeros where the mask, bool [..., N], says so."""
    return tuple(tf.where(mask[..., None], tf.zeros_like(part), part) for part in state)
