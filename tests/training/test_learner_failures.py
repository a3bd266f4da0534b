"""What a learner raises when environments or the loss fail."""

import numpy as np
import pytest

from agents.errors import EnvironmentFailure, NonFiniteError
from tests.faulty_toys import FaultyEnv
from tests.toys import FORCE, TWO_CHOICES, UNBOUNDED
from tests.training.learners import make_learner, make_random_env, make_tensor_env


@pytest.fixture(
    scope="module",
    params=[FORCE, TWO_CHOICES],
    ids=["box", "discrete"],
)
def faulty(request):
    """A function that restores the first weights and sets the second environment's fault."""
    learner = make_learner(
        lambda: FaultyEnv(make_random_env(UNBOUNDED, action_space=request.param))
    )
    weights = {name: variable.numpy() for name, variable in learner.variables().items()}

    def restore(fault=None, countdown=0):
        for name, variable in learner.variables().items():
            variable.assign(weights[name])
        learner.begin_episodes()
        learner.train_envs[1].fault, learner.train_envs[1].countdown = fault, countdown
        return learner

    return restore


@pytest.mark.parametrize(
    ("what", "when", "number", "name", "step"),
    [
        # What fails in which step after the reset, and the step of the rollout that is reported.
        ("observ", 3, np.nan, "observ", 3),
        ("observ", 3, np.inf, "observ", 3),
        ("observ", 5, np.nan, "final_observ", 4),  # The last one of an episode,
        ("observ", 8, np.nan, "observ", 8),  # and of the rollout.
        ("reward", 1, np.nan, "reward", 0),
        ("reward", 8, -np.inf, "reward", 7),
    ],
)
def test_a_nonfinite_number_raises_with_its_place(faulty, what, when, number, name, step):
    with pytest.raises(NonFiniteError) as caught:
        faulty({what: number}, when).iterate()
    place = f"environment 1 is {number} at step {step} of the rollout that began at step 0."
    assert f"The {name} of {place}" in str(caught.value)


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
    with pytest.raises(NonFiniteError, match="loss"):
        learner.iterate()


def test_an_exception_of_an_environment_is_raised_with_its_index(faulty):
    with pytest.raises(EnvironmentFailure, match="the wheel came off") as caught:
        faulty(OSError("the wheel came off"), 3).iterate()
    assert caught.value.env_index == 1
    faulty().iterate()  # After a reset it works again.


def test_finite_rewards_of_any_size_are_valid(faulty):
    faulty({"reward": -1e30}, 3).iterate()
