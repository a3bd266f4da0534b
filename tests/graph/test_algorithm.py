import pytest
import tensorflow as tf

from agents.graph.algorithm import Actor, Algorithm, Report
from agents.graph.simulation import simulate
from agents.graph.step import Step
from tests.tensor_toys import CountingInGraphEnv


class Waiting(Actor):
    """Always takes action 0."""

    def perform(self, observ, deterministic):
        return tf.zeros_like(observ["number"])


def test_an_actor_has_to_implement_perform_only():
    envs = CountingInGraphEnv([2, 3])
    envs.reset()
    rollout = tf.function(lambda: simulate(envs, Waiting(), 3))()
    assert rollout.done.numpy().tolist() == [[False, False], [True, False], [False, True]]


def test_the_other_methods_of_an_actor_do_nothing():
    actor, mask = Waiting(), tf.constant([True, False])
    empty = Step(*[()] * len(Step._fields))
    assert actor.begin_rollout(5) is None
    assert actor.begin_episode(mask) is None
    assert actor.experience(tf.constant(0), empty) is None
    assert actor.end_episode(mask) is None
    assert vars(actor) == {}


def test_an_actor_without_perform_cannot_be_created():
    class Unfinished(Actor):
        def experience(self, step, transition):
            pass

    with pytest.raises(TypeError, match="abstract.*perform"):
        Unfinished()
    with pytest.raises(TypeError, match="abstract"):
        Actor()


@pytest.mark.parametrize("missing", ["train", "variables", "perform"])
def test_an_algorithm_without_a_required_method_cannot_be_created(missing):
    methods = {
        "perform": Waiting.perform,
        "train": lambda self, rollout: Report({}, {}, {}),
        "variables": lambda self: {},
    }
    assert isinstance(type("Complete", (Algorithm,), methods)(), Actor)
    del methods[missing]
    with pytest.raises(TypeError, match=f"abstract.*{missing}"):
        type("Unfinished", (Algorithm,), methods)()


def test_an_algorithm_has_no_episode_state_by_default():
    class Learning(Waiting, Algorithm):
        def train(self, rollout):
            return Report({"losses/policy": tf.reduce_mean(rollout.reward)}, {}, {})

        def variables(self):
            return {}

    assert Learning().reset_episode_state() is None


def test_graphs_return_reports():
    @tf.function
    def report():
        return Report({"losses/value": tf.constant(1.0)}, {}, {"reward": (tf.constant(0.0), -1)})

    result = report()
    assert isinstance(result, Report)
    assert float(result.scalars["losses/value"]) == 1
    assert int(result.nonfinite["reward"][1]) == -1
