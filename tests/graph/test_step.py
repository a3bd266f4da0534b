import numpy as np
import tensorflow as tf

from agents.graph.algorithm import Actor
from agents.graph.simulation import simulate
from agents.graph.step import Rollout, Step
from tests.tensor_toys import CountingInGraphEnv


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
