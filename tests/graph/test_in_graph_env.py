import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError
from agents.graph.in_graph_env import InGraphEnv
from agents.graph.step import Step
from tests.tensor_toys import CountingInGraphEnv, leaf_counts
from tests.toys import COUNTS, read_counts


def wait(num_envs):
    return tf.zeros([num_envs], tf.int64)


def test_variables_have_the_shapes_and_types_of_the_spaces():
    envs = CountingInGraphEnv([3, 4], info_keys=["speed", "lap"])
    assert (envs.num_envs, envs.compiles, envs.info_names) == (2, False, set())
    tf.nest.assert_same_structure(envs.observ, leaf_counts(wait(2)))
    for observ in (envs.observ, envs.final_observ):
        assert observ["image"].shape == [2, 4, 4] and observ["image"].dtype == tf.uint8
        assert observ["pair"][0].shape == [2] and observ["pair"][0].dtype == tf.float64
    assert (envs.action.shape, envs.action.dtype) == ([2], tf.int64)
    for variable, dtype in (
        (envs.reward, tf.float32),
        (envs.terminated, tf.bool),
        (envs.truncated, tf.bool),
        (envs.episode_return, tf.float32),
        (envs.episode_length, tf.int32),
    ):
        assert (variable.shape, variable.dtype, variable.trainable) == ([2], dtype, False)
    assert list(envs.extras) == ["speed", "lap"]
    np.testing.assert_array_equal(envs.extras["speed"], [np.nan, np.nan])


def test_by_default_results_are_packed_as_they_are():
    envs = CountingInGraphEnv([3, 4], info_keys=["speed"])
    packed = envs.step(wait(2))
    assert envs.unpack(packed) is packed
    for leaf, spec in zip(tf.nest.flatten(packed), tf.nest.flatten(envs.packed_spec), strict=True):
        assert spec.is_compatible_with(leaf)
    tf.nest.assert_same_structure(packed, envs.packed_spec)


@pytest.mark.parametrize("mode", ["eager", "graph", "compiled"])
def test_simulate_assigns_the_results_of_a_step(mode):
    envs = CountingInGraphEnv([3, 2], info_keys=["speed"])
    simulate = envs.simulate
    if mode != "eager":
        simulate = tf.function(simulate, jit_compile=mode == "compiled")
    envs.reset()
    for _ in range(2):
        result = simulate(tf.ones([2], tf.int64))
    assert isinstance(result, Step)
    np.testing.assert_array_equal(read_counts(envs.observ), [2, 0])
    np.testing.assert_array_equal(read_counts(envs.final_observ), [2, 2])
    np.testing.assert_array_equal(envs.action, [1, 1])
    np.testing.assert_array_equal(envs.reward, [2, 2])
    np.testing.assert_array_equal(envs.terminated, [False, True])
    np.testing.assert_array_equal(envs.truncated, [False, False])
    np.testing.assert_array_equal(envs.extras["speed"], [20, 20])
    for value, variable in zip(
        tf.nest.flatten(result), tf.nest.flatten(envs._results()), strict=True
    ):
        np.testing.assert_array_equal(value, variable)


def test_keep_assigns_results_that_were_stepped_before():
    envs = CountingInGraphEnv([9, 9])
    envs.reset()
    packed = [envs.step(wait(2)) for _ in range(3)]
    np.testing.assert_array_equal(read_counts(envs.observ), [0, 0])
    envs.keep(wait(2), envs.unpack(packed[-1]))
    np.testing.assert_array_equal(read_counts(envs.observ), [3, 3])
    np.testing.assert_array_equal(envs.reward, [3, 3])


def test_a_reset_clears_the_results_of_the_environments_in_its_mask():
    envs = CountingInGraphEnv([1, 1, 1], info_keys=["speed"])
    envs.reset()
    envs.simulate(wait(3))
    for variable in (envs.episode_return, envs.episode_length):
        variable.assign(tf.ones_like(variable))
    observ = envs.reset(tf.constant([True, False, True]), tf.constant([7, 8, -1], tf.int64))
    np.testing.assert_array_equal(read_counts(observ), [7, 0, 0])
    np.testing.assert_array_equal(read_counts(envs.observ), [7, 0, 0])
    np.testing.assert_array_equal(envs.reward, [0, 1, 0])
    np.testing.assert_array_equal(envs.terminated, [False, True, False])
    np.testing.assert_array_equal(envs.extras["speed"], [np.nan, 10, np.nan])
    np.testing.assert_array_equal(envs.episode_return, [0, 1, 0])
    np.testing.assert_array_equal(envs.episode_length, [0, 1, 0])


def test_by_default_all_environments_are_reset_without_seeds():
    envs = CountingInGraphEnv([9, 9])
    envs.reset(seed=tf.constant([5, 6], tf.int64))
    np.testing.assert_array_equal(read_counts(envs.observ), [5, 6])
    envs.reset()
    np.testing.assert_array_equal(read_counts(envs.observ), [0, 0])


def test_nothing_has_to_be_raised_or_closed_by_default():
    envs = CountingInGraphEnv([3])
    with pytest.raises(KeyError), envs.raising():
        raise KeyError
    envs.close()


def test_unsupported_spaces_are_named():
    class Words(CountingInGraphEnv):
        def __init__(self):
            InGraphEnv.__init__(self, 1, spaces.Text(5), COUNTS)

    with pytest.raises(UnsupportedSpaceError, match="Text"):
        Words()


def test_a_backend_without_step_or_reset_cannot_be_created():
    class Unfinished(InGraphEnv):
        def step(self, action):
            pass

    with pytest.raises(TypeError, match="abstract.*_reset"):
        Unfinished(1, COUNTS, COUNTS)
