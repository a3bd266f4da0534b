import numpy as np
import pytest
import tensorflow as tf

from tests.ppo.linear_learner import EPOCHS, Learner, make_problem


def recompute(learner):
    """Targets that depend on the value function, as those of a rollout do."""
    weights, batch = learner.network.weights, learner.batch
    value = tf.linalg.matvec(batch.inputs["vector"], weights["value/kernel"])
    value += weights["value/bias"]
    advantage, target = batch.advantage - 0.3 * value, batch.target + 0.1 * value
    return {"advantage": advantage, "target": target, "value": value}


def targets_of(batch):
    return {name: getattr(batch, name) for name in ("advantage", "target", "value")}


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("settings", [{}, {"value_clip": 0.1, "kl_stop": 100}], ids=["", "clip"])
def test_every_epoch_has_targets_of_its_own(settings, jit_compile):
    problem = make_problem()
    learner = Learner(*problem, **settings)
    metrics, gradients = tf.function(
        lambda: learner.update.run(learner.batch, tf.constant(0.0), lambda: recompute(learner)),
        autograph=False,
        jit_compile=jit_compile,
    )()
    # Updates of one epoch each, with an optimizer that continues.
    expected = Learner(*problem, epochs=1, **settings)
    minibatches, batch = learner.minibatches.reshape(EPOCHS, -1, 8), expected.batch
    errors = []
    for epoch in range(EPOCHS):
        targets = recompute(expected) if epoch else targets_of(batch)
        expected.update.shuffle = lambda _, epoch=epoch: tf.constant(minibatches[epoch], tf.int32)
        report, last = expected.update.run(batch._replace(**targets), tf.constant(0.0))
        errors.append(float(report["losses/value"]))
    for name, weight in expected.network.weights.items():
        np.testing.assert_allclose(learner.network.weights[name], weight, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(gradients[name], last[name], rtol=1e-3, atol=1e-5)
    assert float(metrics["losses/epochs"]) == EPOCHS
    assert float(metrics["losses/value"]) == pytest.approx(np.mean(errors), rel=1e-4)


def test_an_update_stops_in_any_epoch():
    learner = Learner(*make_problem(), kl_stop=1e-6, kl_stop_after="epoch")
    metrics, last = learner.update.run(learner.batch, tf.constant(0.0), lambda: recompute(learner))
    assert float(metrics["losses/epochs"]) == 1
    # An epoch more without any minibatch would leave zeros.
    assert all(np.any(gradient) for gradient in last.values())


def test_the_targets_of_the_batch_give_the_usual_update():
    problem = make_problem()
    usual, same = Learner(*problem), Learner(*problem)
    usual.run()
    batch = same.batch
    same.update.run(batch, tf.constant(0.0), lambda: targets_of(batch))
    for name, weight in usual.network.weights.items():
        np.testing.assert_allclose(same.network.weights[name], weight, rtol=1e-5, atol=1e-6)
