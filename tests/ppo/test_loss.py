"""The loss, and whole updates of every objective, optimizer and stop against plain numpy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.ppo.linear_learner import EPOCHS, Learner, M, N, make_problem
from tests.ppo.numpy_update import NumpyUpdate

SGD = {"optimizer": "sgd", "learning_rate": 0.1}
VARIANTS = {
    "clip": {},
    "clip, everything at once": {
        "value_clip": 0.2,
        "entropy_coef": 0.05,
        "max_gradient_norm": 0.3,
        "normalize_advantages": False,
    },
    "clip, schedules": {
        "clip_ratio_schedule": "linear",
        "entropy_coef": 0.1,
        "entropy_coef_schedule": "linear",
    },
    "clip, categorical": {"discrete": True, "entropy_coef": 0.05, "max_gradient_norm": 0.3},
    "kl, above the cutoff": {"objective": "kl", "kl_target": 0.005},
    "kl, below the cutoff": {
        "objective": "kl",
        "kl_target": 0.5,
        "kl_init_penalty": 3.0,
        "entropy_coef": 0.05,
    },
    "kl, categorical": {
        "objective": "kl",
        "discrete": True,
        "kl_cutoff_factor": 1.0,
        "value_clip": 0.1,
    },
    "clip_kl": {
        "objective": "clip_kl",
        "kl_target": 0.02,
        "kl_cutoff_coef": 100.0,
        "learning_rate": 0.03,
    },
    "sgd": {**SGD, "sgd_momentum": 0.8, "max_gradient_norm": 0.4},
    "sgd without momentum, separate": {**SGD, "sgd_momentum": 0.0, "critic_learning_rate": 0.1},
    "separate": {"critic_learning_rate": 0.03, "max_gradient_norm": 0.3},
    "stop before a minibatch": {
        "kl_stop": 0.1,
        "learning_rate": 0.05,
        "learning_rate_schedule": "constant",
    },
    "stop after an epoch": {"kl_stop": 0.075, "kl_stop_after": "epoch", "learning_rate": 0.03},
    "kl rate": {"learning_rate_schedule": "kl", "kl_target": 0.01, "critic_learning_rate": 0.02},
    "kl rate, stopped": {
        "learning_rate_schedule": "kl",
        "kl_target": 0.02,
        "kl_stop": 0.1,
        "learning_rate": 0.03,
    },
}


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_two_updates_equal_plain_numpy(settings):
    settings = dict(settings)
    weights, arrays = make_problem(settings.pop("discrete", False))
    learner = Learner(weights, arrays, **settings)
    config, reference = learner.config, NumpyUpdate(learner.config, weights, arrays)
    for progress in (0.25, 0.5):
        expected = reference.run(learner.minibatches.reshape(-1, N // M, M), progress)
        metrics = learner.run(progress)
        for name, array in reference.weights.items():
            np.testing.assert_allclose(
                learner.network.weights[name], array, atol=1e-5, err_msg=name
            )
        for name in {"policy", "value", "entropy", "approx_kl", "gradient_norm", "epochs"}:
            np.testing.assert_allclose(
                metrics[f"losses/{name}"], expected[name], rtol=1e-4, atol=1e-5, err_msg=name
            )
        clip_fraction = 0.0 if config.objective == "kl" else expected["clip_fraction"]
        np.testing.assert_allclose(metrics["losses/clip_fraction"], clip_fraction, atol=1e-6)
        if config.objective != "clip":
            np.testing.assert_allclose(metrics["losses/kl"], expected["kl"], rtol=1e-4)
            np.testing.assert_allclose(metrics["schedule/kl_penalty"], reference.penalty, rtol=1e-6)
            [penalty] = learner.loss.variables().values()  # Of checkpoints.
            np.testing.assert_allclose(penalty, reference.penalty, rtol=1e-6)
        factor = 1 - progress if config.learning_rate_schedule == "linear" else 1.0
        np.testing.assert_allclose(
            metrics["schedule/learning_rate"], reference.rate * factor, rtol=1e-5
        )


@pytest.mark.parametrize(
    ("kl_stop", "after", "epochs"), [(1e-6, "minibatch", 0), (1e-6, "epoch", 1), (50, "epoch", 3)]
)
def test_an_update_stops_where_the_divergence_exceeds_the_threshold(kl_stop, after, epochs):
    weights, arrays = make_problem()  # There is a divergence from the policy that acted.
    learner = Learner(weights, arrays, kl_stop=kl_stop, kl_stop_after=after)
    metrics = learner.run()
    assert metrics["losses/epochs"] == epochs
    (iterations,) = (
        value for name, value in learner.update.variables().items() if name.endswith("iteration")
    )
    assert int(iterations) == epochs * N // M
    changed = any(
        (variable.numpy() != weights[name].astype(np.float32)).any()
        for name, variable in learner.network.weights.items()
    )
    assert changed == (epochs > 0)
    assert np.isfinite(list(metrics.values())).all()


@pytest.mark.parametrize("after", ["minibatch", "epoch"])
def test_nan_is_not_taken_for_a_small_divergence(after):
    weights, arrays = make_problem()
    arrays["old_log_prob"][3] = np.nan
    metrics = Learner(weights, arrays, kl_stop=50, kl_stop_after=after).run()
    assert np.isnan(metrics["losses/policy"])


@pytest.mark.parametrize(("kl_target", "factor"), [(1e-4, 1.5), (None, 1.0), (10.0, 1 / 1.5)])
def test_the_penalty_follows_the_divergence_of_the_whole_batch(kl_target, factor):
    weights, arrays = make_problem()
    penalized = {"objective": "kl", "kl_init_penalty": 4.0}
    reference = NumpyUpdate(Learner(weights, arrays).config, weights, arrays)
    kl = reference.kl(reference.policy(weights, np.arange(N)), np.arange(N))
    learner = Learner(weights, arrays, kl_target=kl_target or float(kl), **penalized)
    for update in (1, 2):
        metrics = learner.loss.after_update(learner.batch)
        np.testing.assert_allclose(metrics["schedule/kl_penalty"], 4 * factor**update, rtol=1e-6)
        np.testing.assert_allclose(metrics["losses/kl"], kl, rtol=1e-5)


def test_the_clipped_objective_needs_no_old_parameters():
    weights, arrays = make_problem()
    learner = Learner(weights, {**arrays, "old_parameters": ()})
    assert learner.loss.variables() == {}
    names = ("epochs", "gradient_norm", *learner.loss.scalars)
    assert set(learner.run()) == {"schedule/learning_rate", *(f"losses/{name}" for name in names)}


def test_elements_may_be_sequences():
    weights, arrays = make_problem()
    learner, start = Learner(weights, arrays, objective="clip_kl"), tf.constant(0.0)
    flat, flat_metrics = learner.loss.compute(learner.batch, start)
    folded = tf.nest.map_structure(
        lambda tensor: tf.reshape(tensor, [4, 6, *tensor.shape[1:]]), learner.batch
    )
    total, metrics = learner.loss.compute(folded, start)
    np.testing.assert_allclose(total, flat, rtol=1e-5)
    for name, value in flat_metrics.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5)
    rows = [[3, 0], [1, 2]]
    sequences = learner.loss.advantages(folded, tf.constant(rows))  # [minibatches, M, L]
    steps = np.arange(N).reshape(4, 6)[rows].reshape(2, 12)
    flat_steps = learner.loss.advantages(learner.batch, tf.constant(steps))
    assert sequences.shape == [2, 2, 6]
    np.testing.assert_allclose(tf.reshape(sequences, [2, 12]), flat_steps, rtol=1e-4, atol=1e-6)


# Compiled, with targets that stay and with targets of each epoch.


def recompute(learner):
    """Targets that depend on the value function, as those of a rollout do."""
    weights, batch = learner.network.weights, learner.batch
    value = tf.linalg.matvec(batch.inputs["vector"], weights["value/kernel"])
    value += weights["value/bias"]
    advantage, target = batch.advantage - 0.3 * value, batch.target + 0.1 * value
    return {"advantage": advantage, "target": target, "value": value}


def test_a_stopped_update_is_the_same_when_compiled():
    weights, arrays = make_problem()
    settings = {
        "objective": "clip_kl",
        "kl_target": 0.1,
        "kl_init_penalty": 0.1,
        "kl_cutoff_coef": 0.0,
        "kl_stop": 0.05,
        "learning_rate": 0.05,
        "learning_rate_schedule": "kl",
    }
    learners = [Learner(weights, arrays, jit_compile=jit, **settings) for jit in (False, True)]
    metrics = [learner.run(0.5) for learner in learners]
    assert 0 < metrics[0]["losses/epochs"] < EPOCHS
    for tag in metrics[0]:
        np.testing.assert_allclose(
            metrics[0][tag], metrics[1][tag], rtol=1e-4, atol=1e-6, err_msg=tag
        )
    for name in weights:
        np.testing.assert_allclose(
            *(learner.network.weights[name] for learner in learners), atol=1e-6
        )


@pytest.mark.parametrize(
    ("jit_compile", "settings"), [(False, {}), (True, {"value_clip": 0.1, "kl_stop": 100})]
)
def test_every_epoch_has_targets_of_its_own(jit_compile, settings):
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
        # Those of the batch in the first epoch.
        current = batch._replace(**recompute(expected)) if epoch else batch
        expected.update.shuffle = lambda _, epoch=epoch: tf.constant(minibatches[epoch], tf.int32)
        report, last = expected.update.run(current, tf.constant(0.0))
        errors.append(float(report["losses/value"]))
    for name, weight in expected.network.weights.items():
        np.testing.assert_allclose(learner.network.weights[name], weight, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(gradients[name], last[name], rtol=1e-3, atol=1e-5)
    assert float(metrics["losses/epochs"]) == EPOCHS
    assert float(metrics["losses/value"]) == pytest.approx(np.mean(errors), rel=1e-4)


def test_an_update_with_targets_of_each_epoch_stops_in_any_epoch():
    learner = Learner(*make_problem(), kl_stop=1e-6, kl_stop_after="epoch")
    metrics, last = learner.update.run(learner.batch, tf.constant(0.0), lambda: recompute(learner))
    assert float(metrics["losses/epochs"]) == 1
    # An epoch more without any minibatch would leave zeros.
    assert all(np.any(gradient) for gradient in last.values())
