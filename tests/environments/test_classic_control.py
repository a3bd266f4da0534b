import gymnasium
import numpy as np
import pytest

from agents.environments.classic_control import hide_velocity


@pytest.mark.parametrize("env, positions", [("Pendulum-v1", [0, 1]), ("CartPole-v1", [0, 2])])
def test_positions_are_observed_and_velocities_are_not(env, positions):
    plain, hidden = gymnasium.make(env), hide_velocity(gymnasium.make(env))
    observ = plain.reset(seed=1)[0]
    np.testing.assert_array_equal(hidden.reset(seed=1)[0], observ[positions])
    action = plain.action_space.sample()
    seen = hidden.step(action)[0]
    np.testing.assert_array_equal(seen, plain.step(action)[0][positions])
    assert hidden.observation_space.contains(seen)


def test_other_environments_raise():
    with pytest.raises(ValueError, match="Acrobot"):
        hide_velocity(gymnasium.make("Acrobot-v1"))
