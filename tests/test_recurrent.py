import numpy as np
import pytest
import tensorflow as tf

from agents.networks.recurrent import Recurrent, reset_state

FEATURES, UNITS, LENGTH, NUMBER = 3, 4, 6, 2


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def numpy_step(kind, weights, features, state):
    """One step of a cell in numpy: its output, and its state after that."""
    kernel, recurrent, bias = weights
    if kind == "lstm":
        output, memory = state
        gates = np.split(features @ kernel + output @ recurrent + bias, 4, axis=-1)
        let_in, forget, new, let_out = sigmoid(gates[0]), sigmoid(gates[1]), np.tanh(gates[2]), sigmoid(gates[3])
        memory = forget * memory + let_in * new
        return let_out * np.tanh(memory), (let_out * np.tanh(memory), memory)
    (output,) = state
    update, reset, new = np.split(features @ kernel + bias[0], 3, axis=-1)
    old_update, old_reset, old_new = np.split(output @ recurrent + bias[1], 3, axis=-1)
    update, reset = sigmoid(update + old_update), sigmoid(reset + old_reset)
    output = update * output + (1 - update) * np.tanh(new + reset * old_new)
    return output, (output,)


@pytest.fixture(params=["gru", "lstm"])
def kind(request):
    return request.param


@pytest.fixture
def memory(kind):
    memory = Recurrent(kind, FEATURES, UNITS, "memory")
    generator = np.random.default_rng(0)
    for weight in memory.weights:
        weight.assign(generator.normal(size=weight.shape))
    return memory


@pytest.fixture
def sequence():
    """Features, and steps at which episodes begin: of the first environment step 2, of the second 0 and 5."""
    begins = np.zeros([LENGTH, NUMBER], bool)
    begins[2, 0] = begins[0, 1] = begins[5, 1] = True
    return np.random.default_rng(1).normal(size=[LENGTH, NUMBER, FEATURES]).astype(np.float32), begins


def some_state(memory):
    return tuple(tf.ones_like(part) * 0.3 for part in memory.zero_state(NUMBER))


@pytest.mark.parametrize("compiled", [False, True])
def test_sequences_equal_plain_numpy_with_states_forgotten_where_episodes_begin(kind, memory, sequence, compiled):
    features, begins = sequence
    unroll = tf.function(memory.unroll, autograph=False, jit_compile=compiled)
    outputs, states = unroll(tf.constant(features), some_state(memory), tf.constant(begins))
    state = tuple(part.numpy() for part in some_state(memory))
    weights = [weight.numpy() for weight in memory.weights]
    for step in range(LENGTH):
        state = tuple(np.where(begins[step][:, None], 0, part) for part in state)
        output, state = numpy_step(kind, weights, features[step], state)
        np.testing.assert_allclose(outputs[step], output, rtol=1e-5, atol=1e-6)
        for after, expected in zip(states, state, strict=True):
            np.testing.assert_allclose(after[step], expected, rtol=1e-5, atol=1e-6)


def test_single_steps_equal_a_sequence(memory, sequence):
    features, begins = map(tf.constant, sequence)
    outputs, states = memory.unroll(features, some_state(memory), begins)
    state = some_state(memory)
    for step in range(LENGTH):
        output, state = memory.step(features[step], reset_state(state, begins[step]))
        np.testing.assert_allclose(outputs[step], output, rtol=1e-5, atol=1e-6)
    for after, last in zip(states, state, strict=True):
        np.testing.assert_allclose(after[-1], last, rtol=1e-5, atol=1e-6)


def test_gradients_go_through_time_but_not_across_the_beginning_of_an_episode(memory, sequence):
    features, begins = map(tf.constant, sequence)

    @tf.function(autograph=False, jit_compile=True)
    def gradient_of_last_output(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            outputs, _ = memory.unroll(features, some_state(memory), begins)
            loss = tf.reduce_sum(outputs[4])
        return loss, tape.gradient(loss, features)

    loss, gradient = gradient_of_last_output(features)
    reaches = np.abs(gradient).max(axis=-1) > 0  # [L, N]
    np.testing.assert_array_equal(reaches[:, 0], [False, False, True, True, True, False])
    np.testing.assert_array_equal(reaches[:, 1], [True, True, True, True, True, False])
    change = np.zeros([LENGTH, NUMBER, FEATURES], np.float32)
    change[2, 0, 1] = 1e-2
    nearby = [gradient_of_last_output(features + sign * change)[0] for sign in (1, -1)]
    assert float(gradient[2, 0, 1]) == pytest.approx(float(nearby[0] - nearby[1]) / 2e-2, rel=1e-2)
