import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from agents.policies.recurrent import Recurrent
from agents.policies.recurrent_cells import reset_state


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
