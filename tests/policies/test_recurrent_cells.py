import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from agents.policies.recurrent_cells import Recurrent, reset_state

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


def random(generator, *shape):
    return tf.constant(generator.normal(size=shape), tf.float32)


def differentiate(function, cell, features, state, is_first, factors):
    """Outputs and states, and gradients of a function of them by features, state and weights."""
    weights = [weight.value for weight in cell.weights]
    with tf.GradientTape() as tape:
        tape.watch([features, *state])
        outputs, states = function(features, state, is_first)
        results = [outputs, *states]
        pairs = zip(factors, results, strict=False)
        loss = tf.add_n([tf.reduce_sum(factor * tf.sin(result)) for factor, result in pairs])
    return results, tape.gradient(loss, [features, *state, *weights])


def step_by_step(cell):
    """What `unroll` computes, in single steps, with automatic differentiation."""

    def unroll(features, state, is_first):
        outputs, states = [], []
        for step in range(features.shape[0]):
            output, state = cell.step(features[step], reset_state(state, is_first[step]))
            outputs.append(output)
            states.append(state)
        return tf.stack(outputs), tuple(map(tf.stack, zip(*states, strict=True)))

    return unroll


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@hypothesis.given(
    strategies.integers(1, 6), strategies.integers(1, 4), strategies.integers(0, 2**16)
)
@hypothesis.settings(deadline=None, max_examples=15)
def test_gradients_equal_those_of_automatic_differentiation(kind, length, num_sequences, seed):
    generator = np.random.default_rng(seed)
    cell = Recurrent(kind, 3, 4, "cell")
    for weight in cell.weights:
        weight.assign(generator.normal(size=weight.shape))
    features = random(generator, length, num_sequences, 3)
    state = tuple(random(generator, num_sequences, 4) for _ in cell.zero_state(1))
    is_first = tf.constant(generator.random([length, num_sequences]) < 0.3)
    factors = [random(generator, length, num_sequences, 4) for _ in (None, *state)]
    computed, expected = (
        tf.nest.flatten(differentiate(function, cell, features, state, is_first, factors))
        for function in (cell.unroll, step_by_step(cell))
    )
    for mine, theirs in zip(computed, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_gradients_are_the_same_in_a_compiled_loop(kind):
    """Minibatches are learned from in a loop of one XLA program."""
    generator = np.random.default_rng(0)
    cell = Recurrent(kind, 3, 4, "cell")
    features = random(generator, 2, 5, 2, 3)
    state, is_first = cell.zero_state(2), tf.constant(generator.random([5, 2]) < 0.3)
    factors = [tf.ones([5, 2, 4])]

    @tf.function(jit_compile=True, autograph=False)
    def sums():
        def add(index, total):
            arguments = features[index], state, is_first, factors
            _, gradients = differentiate(cell.unroll, cell, *arguments)
            return index + 1, total + gradients[-1]

        zeros = tf.zeros_like(cell.weights[-1].value)
        return tf.while_loop(lambda index, _: index < 2, add, (0, zeros))[1]

    expected = sum(
        differentiate(step_by_step(cell), cell, features[index], state, is_first, factors)[1][-1]
        for index in range(2)
    )
    np.testing.assert_allclose(sums(), expected, rtol=1e-4, atol=1e-5)
