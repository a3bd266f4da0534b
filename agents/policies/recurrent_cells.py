"""Recurrent cells, for single steps and for whole sequences, with gradients.

Terms that do not depend on the previous step are computed for all steps at once: the inputs' part of
the gates before the loop, in backpropagation the gates' derivatives. The gradients of the weights
follow after the loop. Automatic differentiation computes all of these in each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import tensorflow as tf

State = tuple[tf.Tensor, ...]

# Derivatives of a step, [..., U] each, in the order of the cell that computes them.
Derivatives = tuple[tf.Tensor, ...]

# The equations of a step, for tensors [..., U], and [..., G * U] for all of its G gates before their
# activation: `inputs`, and the recurrent part `projected`. The first part of the state is the output.
Cell: TypeAlias = "GRU | LSTM"


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


class GRU:
    """A gated recurrent unit (Cho et al., 2014, arXiv 1406.1078), reset after the product.

    Its gates are update z, reset r and candidate c: h' = z h + (1 - z) c.
    """

    def step(self, inputs: tf.Tensor, projected: tf.Tensor, state: State) -> State:
        """Returns the next state."""
        update, _, candidate, _ = self._gates(inputs, projected)
        return (update * state[0] + (1 - update) * candidate,)

    def derivatives(self, inputs: tf.Tensor, projected: tf.Tensor, state: State) -> Derivatives:
        """Returns the derivatives of `step` at its arguments."""
        update, reset, candidate, recurrent = self._gates(inputs, projected)
        of_candidate = (1 - update) * (1 - candidate**2)
        of_update = (state[0] - candidate) * update * (1 - update)
        of_reset = of_candidate * recurrent * reset * (1 - reset)
        return of_update, of_reset, of_candidate, reset, update

    def backward(
        self, derivatives: Derivatives, gradients: State
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Returns gradients of `step`'s arguments, from those of the next state."""
        of_update, of_reset, of_candidate, reset, update = derivatives
        (output,) = gradients
        gates = [output * of_update, output * of_reset, output * of_candidate]
        projected = [*gates[:2], gates[2] * reset]
        return tf.concat(gates, -1), tf.concat(projected, -1), (output * update,)

    def _gates(self, inputs: tf.Tensor, projected: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Update, reset, candidate, and the recurrent part of the candidate, [..., U] each."""
        of_inputs = tf.split(inputs, 3, axis=-1)
        of_state = tf.split(projected, 3, axis=-1)
        update, reset = (tf.sigmoid(of_inputs[gate] + of_state[gate]) for gate in (0, 1))
        return update, reset, tf.tanh(of_inputs[2] + reset * of_state[2]), of_state[2]


class LSTM:
    """A long short-term memory (Hochreiter and Schmidhuber, 1997), its state output and carry.

    Its gates are input i, forget f, candidate g and output o: c' = f c + i g, h' = o tanh(c').
    """

    def step(self, inputs: tf.Tensor, projected: tf.Tensor, state: State) -> State:
        """Returns the next state."""
        enter, forget, candidate, output = self._gates(inputs, projected)
        carry = forget * state[1] + enter * candidate
        return output * tf.tanh(carry), carry

    def derivatives(self, inputs: tf.Tensor, projected: tf.Tensor, state: State) -> Derivatives:
        """Returns the derivatives of `step` at its arguments."""
        enter, forget, candidate, output = self._gates(inputs, projected)
        activated = tf.tanh(forget * state[1] + enter * candidate)
        return (
            candidate * enter * (1 - enter),
            state[1] * forget * (1 - forget),
            enter * (1 - candidate**2),
            activated * output * (1 - output),
            output * (1 - activated**2),
            forget,
        )

    def backward(
        self, derivatives: Derivatives, gradients: State
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Returns gradients of `step`'s arguments, from those of the next state."""
        of_enter, of_forget, of_candidate, of_output, of_carry, forget = derivatives
        output, carry = gradients
        carry += output * of_carry
        of_gates = [carry * of_enter, carry * of_forget, carry * of_candidate, output * of_output]
        gates = tf.concat(of_gates, -1)
        return gates, gates, (tf.zeros_like(output), carry * forget)

    def _gates(self, inputs: tf.Tensor, projected: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Input, forget, candidate and output, [..., U] each."""
        enter, forget, candidate, output = tf.split(inputs + projected, 4, axis=-1)
        sigmoid = tf.sigmoid
        return sigmoid(enter), sigmoid(forget), tf.tanh(candidate), sigmoid(output)


def unroll(
    cell: Cell,
    inputs: tf.Tensor,
    state: State,
    is_first: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
) -> State:
    """Computes whole sequences.

    Args:
      cell: Its equations.
      inputs: The inputs' part of the gates, float32 [L, N, G * U].
      state: The state before the first step, [N, U] each.
      is_first: bool [L, N], whether a step is the first of an episode: its state is zero.
      kernel: Of the recurrent part, float32 [U, G * U].
      bias: Of the recurrent part, float32 [G * U].

    Returns:
      The states after each step, [L, N, U] each; with gradients of all but `is_first`.
    """

    @tf.custom_gradient
    def compute(
        inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, *state: tf.Tensor
    ) -> tuple[State, Any]:
        def one_step(arrays: State, state: State) -> tuple[State, State]:
            inputs, is_first = arrays
            state = reset_state(state, is_first)
            projected = tf.matmul(state[0], kernel) + bias  # [N, G * U]
            state = cell.step(inputs, projected, state)
            return state, (projected, *state)

        outputs = inputs[0], *state  # As those of a step.
        _, (projected, *after) = scan(one_step, (inputs, is_first), state, outputs)

        def gradient(*of_states: tf.Tensor) -> tuple[tf.Tensor, ...]:
            before = tuple(
                tf.concat([first[None], later[:-1]], axis=0)
                for first, later in zip(state, after, strict=True)
            )
            before = reset_state(before, is_first)  # [L, N, U]
            derivatives = cell.derivatives(inputs, projected, before)
            of_inputs, of_projected, of_start = _backward(
                cell, derivatives, of_states, is_first, kernel
            )
            of_kernel = tf.tensordot(before[0], of_projected, [[0, 1], [0, 1]])
            return of_inputs, of_kernel, tf.reduce_sum(of_projected, [0, 1]), *of_start

        return tuple(after), gradient

    return tuple(tf.nest.flatten(compute(inputs, kernel, bias, *state)))


def _backward(
    cell: Cell, derivatives: Derivatives, gradients: State, is_first: tf.Tensor, kernel: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, State]:
    """Gradients of `inputs`, of `projected` and of the state before the first step.

    Args:
      cell: Its equations.
      derivatives: Of all steps, [L, N, U] each.
      gradients: Those of the states after each step that do not come from later steps.
      is_first: bool [L, N].
      kernel: Of the recurrent part.
    """

    def one_step(arrays: Any, later: State) -> tuple[State, State]:
        derivatives, gradients, is_first = arrays
        total = tuple(map(tf.add, gradients, later))
        _, of_projected, (output, *others) = cell.backward(derivatives, total)
        output += tf.matmul(of_projected, kernel, transpose_b=True)
        return reset_state((output, *others), is_first), total

    start = tuple(tf.zeros_like(one[0]) for one in gradients)
    of_start, totals = scan(
        one_step, (derivatives, gradients, is_first), start, start, reverse=True
    )
    of_inputs, of_projected, _ = cell.backward(derivatives, totals)
    return of_inputs, of_projected, of_start


def reset_state(state: State, mask: tf.Tensor) -> State:
    """The state [..., N, U] with zeros where `mask`, bool [..., N], is set."""
    return tuple(tf.where(mask[..., None], tf.zeros_like(part), part) for part in state)


def scan(
    step: Callable[[Any, State], tuple[State, State]],
    arrays: Any,
    state: State,
    outputs: State,
    reverse: bool = False,
) -> tuple[State, State]:
    """Runs `step` over the elements of arrays.

    Element t + 1 is read in iteration t. Where it is read in the iteration that uses it, XLA does not
    vectorize the loop's body, and a cell's step takes twice as long.

    Args:
      step: Maps elements of the arrays and a state to the next state and outputs.
      arrays: A structure of tensors [L, ...].
      state: The state before the first step.
      outputs: State of the shapes of a step's outputs, float32.
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
        count: tf.Tensor, here: Any, state: State, written: tuple[tf.TensorArray, ...]
    ) -> tuple[tf.Tensor, Any, State, tuple[tf.TensorArray, ...]]:
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
