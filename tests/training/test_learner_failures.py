"""What a learner raises when environments or the loss fail."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from agents.errors import EnvironmentFailure, InvalidDataError, NonFiniteError
from tests.faulty_toys import FaultyEnv
from tests.toys import UNBOUNDED
from tests.training.learners import make_learner, make_random_env, make_tensor_env


@pytest.fixture(scope="module")
def faulty():
    """A function that restores the first weights and sets the second environment's fault."""
    learner = make_learner(lambda: FaultyEnv(make_random_env(UNBOUNDED)))
    weights = {name: variable.numpy() for name, variable in learner.variables().items()}

    def restore(fault=None, countdown=0):
        for name, variable in learner.variables().items():
            variable.assign(weights[name])
        learner.begin_episodes()
        learner.train_envs[1].fault, learner.train_envs[1].countdown = fault, countdown
        return learner

    return restore


@pytest.mark.parametrize(
    ("what", "when", "number"),
    [
        ("observ", 3, np.nan),
        ("observ", 3, np.inf),
        ("observ", 5, np.nan),  # The last one of an episode,
        ("observ", 8, np.nan),  # and of the rollout.
        ("reward", 1, np.nan),
        ("reward", 8, -np.inf),
    ],
)
def test_nothing_is_learned_from_a_nonfinite_number_of_an_environment(faulty, what, when, number):
    learner = faulty({what: number}, when)
    before = {
        name: variable.numpy()
        for name, variable in learner.variables().items()
        if name.startswith(("network/", "optimizer/", "normalize"))
    }
    with pytest.raises(InvalidDataError, match=f"returned (the reward )?{number}") as caught:
        learner.iterate()
    assert caught.value.env_index == 1
    assert len(before) > 10
    for name, value in before.items():
        np.testing.assert_array_equal(learner.variables()[name].numpy(), value)


def test_a_nonfinite_number_in_a_compiled_iteration_raises():
    learner = make_learner(lambda: make_tensor_env(fault_at=5, fault_row=1))
    weights = {name: variable.numpy() for name, variable in learner.variables().items()}
    for number in (np.nan, np.inf):
        learner.train_envs[0].fault.assign(number)
        with pytest.raises(
            NonFiniteError,
            match=f"The reward of environment 1 is {number} at step 4 of the rollout",
        ):
            learner.iterate()
        for name, variable in learner.variables().items():
            variable.assign(weights[name])
        learner.begin_episodes()


def test_a_nonfinite_loss_raises(faulty):
    learner = faulty()
    learner.variables()["network/value/output/bias"].assign([np.nan])
    with pytest.raises(NonFiniteError, match="The loss is nan in the update at step 16"):
        learner.iterate()


def test_updates_that_are_not_finite_are_skipped_and_counted():
    learner = make_learner(lambda: make_tensor_env(fault_at=5, fault_row=1), on_nonfinite="skip")
    learner.train_envs[0].fault.assign(0.0)
    learner.iterate()
    before = {name: variable.numpy() for name, variable in learner.variables().items()}
    learner.train_envs[0].fault.assign(np.nan)
    with pytest.warns(UserWarning, match="reward of environment 1 is nan .* skipped, number 1 so"):
        learner.iterate()
    assert learner.step == 32
    assert learner.report()["perf/skipped_updates"] == 1
    for name, value in before.items():
        if name.startswith(("network/", "optimizer/", "normalize")):
            np.testing.assert_array_equal(learner.variables()[name].numpy(), value)
    learner.train_envs[0].fault.assign(0.0)
    learner.iterate()
    changed = learner.variables()["network/value/output/kernel"].numpy()
    assert np.isfinite(changed).all()
    assert (changed != before["network/value/output/kernel"]).any()
    assert learner.report()["perf/skipped_updates"] == 1


def test_an_update_that_ruins_weights_is_skipped():
    """The step of a huge learning rate overflows after the last loss was computed."""
    learner = make_learner(
        make_random_env,
        on_nonfinite="skip",
        optimizer="sgd",
        epochs=1,
        minibatch_size=16,
        max_gradient_norm=0,
    )
    learner.iterate()
    before = {name: variable.numpy() for name, variable in learner.variables().items()}
    for optimizer in learner._algorithm._update._optimizers:
        optimizer.apply = functools.partial(_overflow, optimizer.apply)
    learner._graph_call = tf.function(learner._collect_and_learn, autograph=False)
    learner._algorithm._train_graph = tf.function(learner._algorithm._train, autograph=False)
    with pytest.warns(UserWarning, match="A weight is NaN or infinite .* skipped, number 1"):
        learner.iterate()
    for name, value in before.items():
        if name.startswith(("network/", "optimizer/")):
            np.testing.assert_array_equal(learner.variables()[name].numpy(), value)


def _overflow(apply, gradients, progress):
    """Applies gradients of which one overflows the weights, and reports a finite norm."""
    huge = {name: tf.fill(gradient.shape, np.inf) for name, gradient in gradients.items()}
    apply(huge, progress)
    return tf.zeros([])


def test_an_exception_of_an_environment_is_raised_with_its_index(faulty):
    with pytest.raises(EnvironmentFailure, match="the wheel came off") as caught:
        faulty(OSError("the wheel came off"), 3).iterate()
    assert caught.value.env_index == 1
    faulty().iterate()  # After a reset it works again.


def test_finite_rewards_of_any_size_are_valid(faulty):
    faulty({"reward": -1e30}, 3).iterate()
