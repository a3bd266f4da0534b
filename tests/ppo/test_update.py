"""The parts of updates, alone and of several learners; `test_loss.py` compares whole ones with numpy."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.fingerprint import fingerprint
from tests.ppo.linear_learner import EPOCHS, Learner, N, make_problem
from tests.ppo.numpy_update import NumpyUpdate
from tests.tensor_toys import LearnerGroup, PlainGraphReducer

HALF = N // 2
AGREED = {"losses/gradient_norm", "losses/epochs", "losses/kl"}
AGREED |= {"schedule/learning_rate", "schedule/kl_penalty"}

# Divergences and thresholds are such that a learner on its own would decide otherwise.
UPDATES = {
    "standardized advantages": {},
    "clipped gradients": {"max_gradient_norm": 0.1, "entropy_coef": 0.05, "value_clip": 0.2},
    "KL penalty": {"objective": "clip_kl", "kl_target": 0.12, "kl_cutoff_coef": 0.0},
    "stop before a minibatch": {"kl_stop": 0.1, "learning_rate": 0.05},
    "stop after an epoch": {"kl_stop": 0.1, "kl_stop_after": "epoch", "learning_rate": 0.05},
    "KL-adaptive rate": {"learning_rate_schedule": "kl", "kl_target": 0.05},
    "not compiled": {"compiles": False, "learning_rate_schedule": "kl", "kl_target": 0.05},
}


def make_learners(arrays, group, weights, **settings):
    """Learners of half of the batch each."""
    halves = [
        tf.nest.map_structure(lambda array: array[rows], arrays)  # noqa: B023 - Called here.
        for rows in (slice(HALF), slice(HALF, N))
    ]
    pairs = zip(halves, group.reducers, strict=True)
    learners = [
        Learner(weights, half, reducer, jit_compile=None, **settings) for half, reducer in pairs
    ]
    return learners, halves


@pytest.mark.parametrize("settings", UPDATES.values(), ids=UPDATES)
def test_updates_of_two_learners_equal_one_of_the_whole_batch(settings):
    weights, arrays = make_problem()
    # The halves have different statistics.
    arrays["advantage"][:HALF] += 5
    arrays["old_log_prob"][:HALF] += 0.4
    arrays["old_parameters"][0][:HALF] += 0.3
    group = LearnerGroup()
    learners, _ = make_learners(arrays, group, weights, **settings)
    whole = Learner(weights, arrays, **settings)
    own = learners[0].minibatches.reshape(EPOCHS, -1, 4)  # [epochs, minibatches, M]
    whole.minibatches = np.concatenate([own, own + HALF], axis=-1).reshape(EPOCHS, N)
    for progress in (0.0, 0.5):
        expected = whole.run(progress)
        metrics = group.run(*(functools.partial(one.run, progress) for one in learners))
        for learner in learners:
            for name, variable in whole.network.variables().items():
                np.testing.assert_allclose(
                    learner.network.weights[name], variable, rtol=1e-4, atol=1e-6, err_msg=name
                )
        assert metrics[0].keys() == metrics[1].keys() == expected.keys()
        for tag, number in expected.items():
            mean = np.mean([each[tag] for each in metrics])
            np.testing.assert_allclose(mean, number, rtol=1e-3, atol=1e-5, err_msg=tag)
        for tag in AGREED & expected.keys():
            assert metrics[0][tag] == metrics[1][tag], tag
        assert ("kl_stop" in settings) == (expected["losses/epochs"] < EPOCHS)


def test_learners_average_weights_and_moments_once_an_epoch():
    weights, arrays = make_problem()
    group = LearnerGroup()
    learners, halves = make_learners(
        arrays, group, weights, reduce_every="epoch", normalize_advantages=False
    )
    group.run(*(learner.run for learner in learners))
    references = [NumpyUpdate(learners[0].config, weights, half) for half in halves]
    for epoch in learners[0].minibatches.reshape(EPOCHS, -1, 4):
        for reference in references:
            reference.epoch(epoch, progress=0.0)
        for name in weights:
            mean = np.mean([reference.weights[name] for reference in references], axis=0)
            slots = zip(*(reference.slots[name] for reference in references), strict=True)
            moments = [np.mean(slot, axis=0) for slot in slots]
            for reference in references:
                reference.weights[name], reference.slots[name] = mean, list(moments)
    for learner in learners:
        for name, array in references[0].weights.items():
            np.testing.assert_allclose(learner.network.weights[name], array, atol=1e-5)
    assert fingerprint(learners[0].update.variables()) == fingerprint(
        learners[1].update.variables()
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "clip_kl", "kl_stop": 0.1, "max_gradient_norm": 0.3},
        {"kl_stop": 0.05, "kl_stop_after": "epoch", "learning_rate_schedule": "kl"},
    ],
)
def test_an_update_in_a_plain_graph_equals_a_compiled_one(settings):
    weights, arrays = make_problem()
    compiled = Learner(weights, arrays, jit_compile=True, **settings)
    plain = Learner(weights, arrays, PlainGraphReducer(), **settings)
    for progress in (0.0, 0.5):
        metrics = [learner.run(progress) for learner in (compiled, plain)]
        for tag in metrics[0]:
            np.testing.assert_allclose(
                metrics[0][tag], metrics[1][tag], rtol=1e-4, atol=1e-6, err_msg=tag
            )
    for name, variable in compiled.network.variables().items():
        np.testing.assert_allclose(plain.network.weights[name], variable, rtol=1e-5, atol=1e-6)


def shuffle(learner, size):
    """Indices [epochs, N] of its own, not those of the test."""
    return type(learner.update).shuffle(learner.update, size).numpy().reshape(EPOCHS, size)


def test_every_epoch_is_another_permutation():
    learner = Learner(*make_problem())
    epochs = shuffle(learner, N)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(N), [EPOCHS, 1]))
    assert len({tuple(epoch) for epoch in epochs}) == EPOCHS
    assert (shuffle(learner, N) != epochs).any()


def test_learners_draw_numbers_for_all():
    group, (weights, arrays) = LearnerGroup(), make_problem()
    learners, _ = make_learners(arrays, group, weights)
    alone = Learner(weights, arrays)
    shuffle(alone, N)
    orders = [shuffle(learner, HALF) for learner in learners]
    assert (orders[0] != orders[1]).any()
    for order, learner in zip(orders, learners, strict=True):
        np.testing.assert_array_equal(np.sort(order, axis=1), np.tile(np.arange(HALF), [EPOCHS, 1]))
        # The next numbers do not depend on how many learners there are.
        following = learner.update._generator.uniform([3])
        np.testing.assert_array_equal(following, alone.update._generator.uniform([3]))
        alone.update._generator.reset_from_seed(1)
        shuffle(alone, N)


def test_a_variable_without_a_gradient_is_named():
    weights, arrays = make_problem()
    learner = Learner({**weights, "spare": np.ones(2)}, arrays)
    with pytest.raises(ValueError, match="does not depend on spare"):
        learner.run()
