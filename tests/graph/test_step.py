import numpy as np
import tensorflow as tf

from agents.graph.algorithm import Actor
from agents.graph.simulation import simulate
from agents.graph.step import Rollout, Step
from tests.tensor_toys import CountingInGraphEnv, leaf_counts


def test_a_rollout_has_the_documented_shapes_and_types():
    envs = CountingInGraphEnv([2, 5, 9], info_keys=["speed"])
    envs.reset()

    class Waiting(Actor):
        def perform(self, observ, deterministic):
            return tf.zeros_like(observ["number"])

        def experience(self, step, transition):
            assert isinstance(transition, Step)
            assert transition.action.shape == [3]

    rollout = tf.function(lambda: simulate(envs, Waiting(), 4))()
    assert isinstance(rollout, Rollout)
    for name in ("observ", "final_observ"):
        for leaf, variable in zip(
            tf.nest.flatten(getattr(rollout, name)), tf.nest.flatten(envs.observ), strict=True
        ):
            assert (leaf.shape, leaf.dtype) == ([4, *variable.shape], variable.dtype)
    for name in ("terminated", "truncated", "done"):
        assert (getattr(rollout, name).shape, getattr(rollout, name).dtype) == ([4, 3], tf.bool)
    for number in (rollout.reward, rollout.episode_return, rollout.extras["speed"]):
        assert (number.shape, number.dtype) == ([4, 3], tf.float32)
    assert (rollout.episode_length.shape, rollout.episode_length.dtype) == ([4, 3], tf.int32)
    np.testing.assert_array_equal(rollout.done, rollout.terminated | rollout.truncated)


def test_variables_have_the_shapes_and_types_of_the_spaces():
    envs = CountingInGraphEnv([3, 4], info_keys=["speed", "lap"])
    assert (envs.num_envs, envs.compiles, envs.info_names) == (2, False, set())
    tf.nest.assert_same_structure(envs.observ, leaf_counts(tf.zeros([2], tf.int64)))
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
