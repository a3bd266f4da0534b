import numpy as np
import pytest
import tensorflow as tf

from agents.parts.memory import Memory
from agents.tools.attr_dict import AttrDict


def example_step(random):
    """Three environments' worth of everything that an environment may give."""
    return AttrDict(
        observ={"image": random.integers(0, 256, (3, 4, 4, 1)).astype(np.uint8), "speed": random.normal(size=(3, 2))},
        reward=random.normal(size=3).astype(np.float32),
        choice=random.integers(-5, 5, 3),
        terminated=random.random(3) < 0.5,
    )


def filled(memory, steps, jit_compile):
    """Writes steps in a loop in the graph, as a rollout does."""
    stacked = tf.nest.map_structure(lambda *leaves: tf.constant(np.stack(leaves)), *steps)

    @tf.function(autograph=False, jit_compile=jit_compile)
    def rollout():
        def one_step(step):
            memory.write(step, tf.nest.map_structure(lambda leaf: leaf[step], stacked))
            return (step + 1,)

        tf.while_loop(lambda step: step < len(steps), one_step, (tf.constant(0),))

    rollout()
    return memory.read()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_reads_every_step_as_it_was_written(jit_compile):
    random = np.random.default_rng(0)
    first, second = ([example_step(random) for _ in range(5)] for _ in range(2))
    memory = Memory(5, tf.nest.map_structure(tf.constant, first[0]))
    for steps in (first, second):  # The second rollout takes the place of the first.
        read = filled(memory, steps, jit_compile)
        tf.nest.assert_same_structure(read, steps[0])
        for index, written in enumerate(tf.nest.flatten(tf.nest.map_structure(lambda *x: np.stack(x), *steps))):
            leaf = tf.nest.flatten(read)[index]
            assert leaf.dtype.as_numpy_dtype == written.dtype
            np.testing.assert_array_equal(leaf, written)


def test_examples_may_be_specs_variables_or_tensors():
    examples = (tf.TensorSpec([2, 3], tf.float64), tf.Variable(tf.zeros([2], tf.bool)), tf.zeros([2], tf.uint8))
    read = Memory(4, examples).read()
    assert [(leaf.shape.as_list(), leaf.dtype) for leaf in read] == [
        ([4, 2, 3], tf.float64),
        ([4, 2], tf.bool),
        ([4, 2], tf.uint8),
    ]


def test_what_was_read_stays_when_the_memory_is_written_again():
    memory = Memory(2, tf.zeros([1]))
    memory.write(tf.constant(0), tf.constant([1.0]))
    read = memory.read()
    memory.write(tf.constant(0), tf.constant([2.0]))
    np.testing.assert_array_equal(read, [[1.0], [0.0]])
