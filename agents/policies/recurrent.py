"""Recurrent cells, for single steps and for whole sequences."""

from __future__ import annotations

import keras
import tensorflow as tf

from agents.policies.recurrent_cells import GRU, LSTM, State, unroll


class Recurrent:
    """A GRU (Cho et al., 2014, arXiv 1406.1078) or LSTM (Hochreiter and Schmidhuber, 1997).

    Its state is a tuple of tensors [N, U], zero at the start of an episode. It always computes in
    float32: errors of the state accumulate over an episode.

    Attributes:
      cell: The Keras cell.
      weights: Its weights.
    """

    def __init__(self, kind: str, features: int, units: int, name: str):
        """Creates the weights.

        Args:
          kind: `gru` or `lstm`.
          features: Size of its inputs, F.
          units: Size of its outputs, U.
          name: Name of the weights.
        """
        cells = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}
        self._kind = kind
        self.cell = cells[kind](units, name=name, dtype="float32")
        self.cell.build([None, features])
        self._sizes = tf.nest.flatten(self.cell.state_size)
        self.weights = self.cell.weights

    def zero_state(self, num_envs: int | tf.Tensor) -> State:
        """The state at the start of episodes, [num_envs, U]."""
        return tuple(tf.zeros([num_envs, size]) for size in self._sizes)

    def step(self, features: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
        """Computes one step.

        Args:
          features: float32 [N, F].
          state: The state before the step, [N, U] each.

        Returns:
          Outputs, float32 [N, U], and the next state.
        """
        output, next_state = self.cell(features, list(state))
        return output, tuple(tf.nest.flatten(next_state))

    def unroll(
        self, features: tf.Tensor, state: State, is_first: tf.Tensor
    ) -> tuple[tf.Tensor, State]:
        """Computes whole sequences.

        Args:
          features: float32 [L, N, F].
          state: The state before the first step, [N, U] each.
          is_first: bool [L, N], whether a step is the first of an episode: its state is zero.

        Returns:
          Outputs, float32 [L, N, U], and the states after each step, [L, N, U] each.
        """
        kernel, recurrent_kernel, bias = map(tf.convert_to_tensor, self.weights)
        inputs = tf.tensordot(features, kernel, 1)  # [L, N, G * U]
        if self._kind == "gru":  # It has two biases.
            inputs, bias = inputs + bias[0], bias[1]
        equations = GRU() if self._kind == "gru" else LSTM()
        states = unroll(equations, inputs, state, is_first, recurrent_kernel, bias)
        return states[0], states
