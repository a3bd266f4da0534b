import numpy as np
import pytest
import tensorflow as tf

from agents.policies.recurrent import Recurrent
from agents.policies.recurrent_cells import reset_state

FEATURES, UNITS, LENGTH, NUM_SEQUENCES = 3, 4, 6, 2


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def numpy_step(kind, weights, features, state):
    """One step of a cell in numpy: its output and its next state."""
    kernel, recurrent, bias = weights
    if kind == "lstm":
        output, carry = state
        gates = np.split(features @ kernel + output @ recurrent + bias, 4, axis=-1)
        input_gate, forget_gate, candidate, output_gate = (
            sigmoid(gates[0]),
            sigmoid(gates[1]),
            np.tanh(gates[2]),
            sigmoid(gates[3]),
        )
        carry = forget_gate * carry + input_gate * candidate
        return output_gate * np.tanh(carry), (output_gate * np.tanh(carry), carry)
    (output,) = state
    update, reset, candidate = np.split(features @ kernel + bias[0], 3, axis=-1)
    old_update, old_reset, old_candidate = np.split(output @ recurrent + bias[1], 3, axis=-1)
    update, reset = sigmoid(update + old_update), sigmoid(reset + old_reset)
    output = update * output + (1 - update) * np.tanh(candidate + reset * old_candidate)
    return output, (output,)


@pytest.fixture(params=["gru", "lstm"])
def kind(request):
    return request.param


@pytest.fixture
def cell(kind):
    cell = Recurrent(kind, FEATURES, UNITS, "cell")
    generator = np.random.default_rng(0)
    for weight in cell.weights:
        weight.assign(generator.normal(size=weight.shape))
    return cell


@pytest.fixture
def sequence():
    """Features and `is_first`: in the first sequence step 2, in the second steps 0 and 5."""
    is_first = np.zeros([LENGTH, NUM_SEQUENCES], bool)
    is_first[2, 0] = is_first[0, 1] = is_first[5, 1] = True
    features = np.random.default_rng(1).normal(size=[LENGTH, NUM_SEQUENCES, FEATURES])
    return features.astype(np.float32), is_first


def some_state(cell):
    return tuple(tf.ones_like(part) * 0.3 for part in cell.zero_state(NUM_SEQUENCES))


@pytest.mark.parametrize("compiled", [False, True])
def test_sequences_equal_plain_numpy_with_zero_states_at_first_steps(
    kind, cell, sequence, compiled
):
    features, is_first = sequence
    unroll = tf.function(cell.unroll, autograph=False, jit_compile=compiled)
    outputs, states = unroll(tf.constant(features), some_state(cell), tf.constant(is_first))
    state = tuple(part.numpy() for part in some_state(cell))
    weights = [weight.numpy() for weight in cell.weights]
    for step in range(LENGTH):
        state = tuple(np.where(is_first[step][:, None], 0, part) for part in state)
        output, state = numpy_step(kind, weights, features[step], state)
        np.testing.assert_allclose(outputs[step], output, rtol=1e-5, atol=1e-6)
        for after, expected in zip(states, state, strict=True):
            np.testing.assert_allclose(after[step], expected, rtol=1e-5, atol=1e-6)


def test_single_steps_equal_a_sequence(cell, sequence):
    features, is_first = map(tf.constant, sequence)
    outputs, states = cell.unroll(features, some_state(cell), is_first)
    state = some_state(cell)
    for step in range(LENGTH):
        output, state = cell.step(features[step], reset_state(state, is_first[step]))
        np.testing.assert_allclose(outputs[step], output, rtol=1e-5, atol=1e-6)
    for after, last in zip(states, state, strict=True):
        np.testing.assert_allclose(after[-1], last, rtol=1e-5, atol=1e-6)


def test_gradients_flow_through_time_but_not_into_the_previous_episode(cell, sequence):
    features, is_first = map(tf.constant, sequence)

    @tf.function(autograph=False, jit_compile=True)
    def gradient_of_output(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            outputs, _ = cell.unroll(features, some_state(cell), is_first)
            loss = tf.reduce_sum(outputs[4])
        return loss, tape.gradient(loss, features)

    _, gradient = gradient_of_output(features)
    nonzero = np.abs(gradient).max(axis=-1) > 0  # [L, N]
    np.testing.assert_array_equal(nonzero[:, 0], [False, False, True, True, True, False])
    np.testing.assert_array_equal(nonzero[:, 1], [True, True, True, True, True, False])
    change = np.zeros([LENGTH, NUM_SEQUENCES, FEATURES], np.float32)
    change[2, 0, 1] = 1e-2
    nearby = [gradient_of_output(features + sign * change)[0] for sign in (1, -1)]
    assert float(gradient[2, 0, 1]) == pytest.approx(float(nearby[0] - nearby[1]) / 2e-2, rel=1e-2)
