import numpy as np
import pytest
import tensorflow as tf

from agents.config import load_config
from agents.ppo.optimizers import make_optimizers

GRADIENTS = {"policy/kernel": [30.0, 0.0], "policy/log_std": 40.0, "value/kernel": [0.0, 6.0]}


def make(**settings):
    variables = {name: tf.Variable(tf.zeros_like(gradient)) for name, gradient in GRADIENTS.items()}
    sgd = {"optimizer": "sgd", "sgd_momentum": 0.0, "learning_rate": 0.1, "learning_rate_schedule": "constant"}
    return variables, make_optimizers(variables, load_config("default", **{**sgd, **settings}))


def apply(optimizers, progress=0.0):
    gradients = {name: tf.constant(gradient) for name, gradient in GRADIENTS.items()}
    return [float(optimizer.apply(gradients, tf.constant(progress))) for optimizer in optimizers]


def steps_of(variables):
    return [float(variable.numpy().sum()) for variable in variables.values()]


def test_one_optimizer_shortens_everything_together():
    variables, optimizers = make(max_gradient_norm=1.0)
    norm = np.sqrt(30**2 + 40**2 + 6**2)
    np.testing.assert_allclose(apply(optimizers), [norm], rtol=1e-6)
    np.testing.assert_allclose(steps_of(variables), np.array([-3, -4, -0.6]) / norm, rtol=1e-6)


def test_separate_optimizers_shorten_by_their_own_norms_and_have_rates_of_their_own():
    variables, optimizers = make(max_gradient_norm=10.0, critic_learning_rate=0.5)
    np.testing.assert_allclose(apply(optimizers), [50, 6], rtol=1e-6)
    np.testing.assert_allclose(steps_of(variables), [-0.6, -0.8, -3], rtol=1e-6)


@pytest.mark.parametrize(
    ("schedule", "rates"), [("constant", [0.1, 0.5]), ("linear", [0.025, 0.125]), ("kl", [0.1, 0.5])]
)
def test_learning_rates_in_the_course_of_a_training(schedule, rates):
    variables, optimizers = make(max_gradient_norm=0.0, critic_learning_rate=0.5, learning_rate_schedule=schedule)
    apply(optimizers, progress=0.75)
    expected = [-30 * rates[0], -40 * rates[0], -6 * rates[1]]
    np.testing.assert_allclose(steps_of(variables), expected, rtol=1e-6)


def test_only_the_actor_follows_the_divergence():
    _, (actor, critic) = make(critic_learning_rate=0.5, learning_rate=1e-3, learning_rate_schedule="kl")
    for optimizer in (actor, critic):
        optimizer.learning_rate.observe(tf.constant(1.0), tf.constant(True))
    np.testing.assert_allclose(actor.learning_rate(tf.constant(0.0)), 1e-3 / 1.5, rtol=1e-6)
    np.testing.assert_allclose(critic.learning_rate(tf.constant(0.0)), 0.5)


@pytest.mark.parametrize(("optimizer", "slots"), [("adam", 6), ("sgd", 3)])
@pytest.mark.parametrize("critic_learning_rate", [0.0, 0.5])
def test_checkpoints_hold_everything_under_names_of_their_own(optimizer, slots, critic_learning_rate):
    settings = {"optimizer": optimizer, "sgd_momentum": 0.9, "critic_learning_rate": critic_learning_rate}
    runs = [make(**settings, learning_rate_schedule="kl")[1] for _ in range(2)]
    names = [[name for one in optimizers for name in one.variables()] for optimizers in runs]
    assert names[0] == names[1]  # However many optimizers a process has made before.
    assert len(set(names[0])) == len(names[0])
    assert len([name for name in names[0] if name.endswith(("momentum", "velocity"))]) == slots
    assert "learning_rate/rate" in names[0]
