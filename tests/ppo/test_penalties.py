import numpy as np
import pytest
import tensorflow as tf

from agents.ppo.penalties import KLPenalty
from agents.settings.config_file import load_config
from tests.ppo.linear_learner import Learner, LinearNetwork, N, as_batch, make_problem
from tests.ppo.numpy_update import NumpyUpdate
from tests.tensor_toys import LearnerGroup


def divergence(weights, arrays):
    """Mean KL divergence from the policy that acted, in numpy."""
    update, rows = (
        NumpyUpdate(load_config("default"), weights, arrays),
        np.arange(len(arrays["value"])),
    )
    return update.kl(update.policy(weights, rows), rows)


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("kl_target", [1e-4, 10.0])
def test_the_loss_equals_plain_numpy(discrete, kl_target):
    weights, arrays = make_problem(discrete)
    settings = {"kl_target": kl_target, "kl_init_penalty": 3.0, "kl_cutoff_factor": 2.0}
    config = load_config("default", **settings, kl_cutoff_coef=100.0)
    network, batch = LinearNetwork(weights), as_batch(arrays)
    penalty = KLPenalty(network, config)
    policy, _ = network.evaluate(batch.inputs, batch.states, batch.is_first)
    kl = divergence(weights, arrays)
    expected = 3.0 * kl + 100.0 * max(kl - 2.0 * kl_target, 0) ** 2
    np.testing.assert_allclose(penalty.loss(batch, policy), expected, rtol=1e-3)


@pytest.mark.parametrize(("kl_target", "factor"), [(1e-4, 1.5), (None, 1.0), (10.0, 1 / 1.5)])
def test_the_coefficient_follows_the_divergence_of_the_whole_batch(kl_target, factor):
    weights, arrays = make_problem()
    kl_target = kl_target or divergence(weights, arrays)
    learner = Learner(weights, arrays, objective="kl", kl_init_penalty=4.0, kl_target=kl_target)
    (penalty,) = learner.loss.variables().values()
    for update in (1, 2):
        metrics = learner.loss.after_update(learner.batch)
        np.testing.assert_allclose(penalty, 4 * factor**update, rtol=1e-6)
        np.testing.assert_allclose(metrics["schedule/kl_penalty"], penalty)
        np.testing.assert_allclose(metrics["losses/kl"], divergence(weights, arrays), rtol=1e-5)


def test_learners_adapt_the_coefficient_to_their_mean_divergence():
    weights, arrays = make_problem()
    halves = [tf.nest.map_structure(lambda array: array[rows], arrays)  # noqa: B023
              for rows in (slice(0, N // 2), slice(N // 2, N))]  # fmt: skip
    # Alone, one learner would keep its coefficient, and the other one would increase it.
    halves[1]["old_parameters"] = tuple(2 * one for one in halves[1]["old_parameters"])
    both = tf.nest.map_structure(lambda *each: np.concatenate(each), *halves)
    own_kl, kl = divergence(weights, halves[0]), divergence(weights, both)
    config = load_config("default", kl_target=float(own_kl), kl_init_penalty=4.0)
    assert kl > 1.3 * own_kl
    group = LearnerGroup()
    penalties = [KLPenalty(LinearNetwork(weights), config, each) for each in group.reducers]
    metrics = group.run(
        lambda: penalties[0].after_update(as_batch(halves[0])),
        lambda: penalties[1].after_update(as_batch(halves[1])),
    )
    for each in metrics:
        np.testing.assert_allclose(each["losses/kl"], kl, rtol=1e-5)
        np.testing.assert_allclose(each["schedule/kl_penalty"], 4 * 1.5, rtol=1e-6)


def test_checkpoints_hold_the_coefficient():
    weights, _ = make_problem()
    penalty = KLPenalty(LinearNetwork(weights), load_config("default", kl_init_penalty=2.5))
    assert set(penalty.variables()) == {"kl_penalty"}
    np.testing.assert_allclose(penalty.variables()["kl_penalty"], 2.5)
