import gymnasium
import numpy as np
import pytest

from agents.families.classic_control import hide_velocity


@pytest.mark.parametrize("env, kept", [("Pendulum-v1", [0, 1]), ("CartPole-v1", [0, 2])])
def test_places_are_seen_and_velocities_are_not(env, kept):
    plain, hidden = gymnasium.make(env), hide_velocity(gymnasium.make(env))
    observ = plain.reset(seed=1)[0]
    np.testing.assert_array_equal(hidden.reset(seed=1)[0], observ[kept])
    action = plain.action_space.sample()
    seen = hidden.step(action)[0]
    np.testing.assert_array_equal(seen, plain.step(action)[0][kept])
    assert hidden.observation_space.contains(seen)


def test_other_environments_are_refused():
    with pytest.raises(ValueError, match="Acrobot"):
        hide_velocity(gymnasium.make("Acrobot-v1"))
