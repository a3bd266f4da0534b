"""The loss, and whole updates of every objective, optimizer and stop against plain numpy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.ppo.linear_learner import EPOCHS, Learner, M, N, make_problem
from tests.ppo.numpy_update import NumpyUpdate

START = tf.constant(0.0)
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
    "sgd": {
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "sgd_momentum": 0.8,
        "max_gradient_norm": 0.4,
    },
    "sgd without momentum, separate": {
        "optimizer": "sgd",
        "sgd_momentum": 0.0,
        "critic_learning_rate": 0.1,
    },
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
        factor = 1 - progress if config.learning_rate_schedule == "linear" else 1.0
        np.testing.assert_allclose(
            metrics["schedule/learning_rate"], reference.rate * factor, rtol=1e-5
        )


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


def test_the_clipped_objective_needs_no_old_parameters():
    weights, arrays = make_problem()
    learner = Learner(weights, {**arrays, "old_parameters": ()})
    assert learner.loss.variables() == {}
    names = ("epochs", "gradient_norm", *learner.loss.scalars)
    assert set(learner.run()) == {"schedule/learning_rate", *(f"losses/{name}" for name in names)}


def test_a_loss_equals_plain_numpy():
    weights, arrays = make_problem()
    learner = Learner(weights, arrays, entropy_coef=0.05, value_clip=0.2)
    advantage = learner.loss.advantages(learner.batch, tf.range(N)[None])[0]
    batch = learner.batch._replace(advantage=advantage)
    loss, metrics = learner.loss.compute(batch, START)
    expected, numbers = NumpyUpdate(learner.config, weights, arrays).loss(weights, np.arange(N), 0)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert tuple(metrics) == tuple(numbers) == learner.loss.scalars
    for name, number in numbers.items():
        np.testing.assert_allclose(metrics[name], number, rtol=1e-4, atol=1e-6)


def test_a_checkpoint_holds_the_coefficients_of_penalties():
    weights, arrays = make_problem()
    learner = Learner(weights, arrays, objective="kl", kl_init_penalty=3.0)
    assert {name: float(value) for name, value in learner.loss.variables().items()} == {
        "kl_penalty": 3.0
    }


def test_advantages_are_standardized_in_each_minibatch_as_configured():
    weights, arrays = make_problem()
    normalized, plain = (
        Learner(weights, arrays, normalize_advantages=normalize) for normalize in (True, False)
    )
    minibatches = np.random.default_rng(0).permutation(N).reshape(3, M)
    expected = arrays["advantage"][minibatches]  # [minibatches, M]
    got = plain.loss.advantages(plain.batch, tf.constant(minibatches))
    np.testing.assert_array_equal(got, expected.astype(np.float32))
    expected -= expected.mean(axis=1, keepdims=True)
    expected /= expected.std(axis=1, keepdims=True)
    got = normalized.loss.advantages(normalized.batch, tf.constant(minibatches))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_elements_may_be_sequences():
    weights, arrays = make_problem()
    learner = Learner(weights, arrays, objective="clip_kl")
    flat, flat_metrics = learner.loss.compute(learner.batch, START)
    folded = tf.nest.map_structure(
        lambda tensor: tf.reshape(tensor, [4, 6, *tensor.shape[1:]]), learner.batch
    )
    total, metrics = learner.loss.compute(folded, START)
    np.testing.assert_allclose(total, flat, rtol=1e-5)
    for name, value in flat_metrics.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5)
    rows = [[3, 0], [1, 2]]
    sequences = learner.loss.advantages(folded, tf.constant(rows))  # [minibatches, M, L]
    steps = np.arange(N).reshape(4, 6)[rows].reshape(2, 12)
    flat_steps = learner.loss.advantages(learner.batch, tf.constant(steps))
    assert sequences.shape == [2, 2, 6]
    np.testing.assert_allclose(tf.reshape(sequences, [2, 12]), flat_steps, rtol=1e-4, atol=1e-6)


def test_steps_without_an_outcome_have_no_advantage():
    weights, arrays = make_problem()
    learner = Learner(weights, arrays)
    valid = np.random.default_rng(1).random(N) < 0.7
    batch = learner.batch._replace(valid=tf.constant(valid))
    minibatches = np.arange(N).reshape(3, M)
    got = learner.loss.advantages(batch, tf.constant(minibatches)).numpy()
    for rows, standardized in zip(minibatches, got, strict=True):
        part = arrays["advantage"][rows][valid[rows]]
        expected = (part - part.mean()) / part.std()
        np.testing.assert_allclose(standardized[valid[rows]], expected, rtol=1e-4, atol=1e-6)
        assert not standardized[~valid[rows]].any()
