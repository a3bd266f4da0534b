import numpy as np
import pytest
import tensorflow as tf

from agents.tensor_envs import CartPole
from tests.graph import comparison


def balance(actions, states, generator):
    """Mostly pushes to the side that the pole falls to; random pushes topple it in 20 steps."""
    falls_right = states[:, 2] + states[:, 3] > 0
    return np.where(generator.random(len(states)) < 0.8, falls_right, actions)


REFERENCE = comparison.Reference(
    "CartPole-v1",
    max_state=[2.4, 4, 0.2, 4],
    step_tolerance=1e-13,
    # Both compute in float64 and round observations to float32; the fall of the pole amplifies
    # errors of 1e-16 by a factor of e^8 in 2 seconds.
    episode_tolerance=1e-6,
    choose_actions=balance,
)


def step(state, action, **arguments):
    state = tuple(tf.constant([value], tf.float64) for value in state)
    state, reward, terminated = CartPole(**arguments).step(
        state, tf.constant([action], tf.int64), uniform=None
    )
    return [float(value[0]) for value in state], float(reward[0]), bool(terminated[0])


def test_the_reward_is_an_argument_as_in_gymnasium():
    toppled = [0.0, 0.0, 0.3, 0.0]
    assert comparison.check_arguments(REFERENCE, toppled, sutton_barto_reward=True) == -1
    assert comparison.check_arguments(REFERENCE, toppled) == 1
    upright = [0.0, 0.0, 0.0, 0.0]
    assert comparison.check_arguments(REFERENCE, upright, sutton_barto_reward=True) == 0


def test_pushes_are_mirror_images():
    (_, left, _, left_spin), *_ = step([0.0, 0.0, 0.0, 0.0], 0)
    (_, right, _, right_spin), *_ = step([0.0, 0.0, 0.0, 0.0], 1)
    assert left < 0 < right and left == -right
    assert right_spin < 0 < left_spin and left_spin == -right_spin


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ([2.39, 0.0, 0.0, 0.0], False),
        ([2.39, 1.0, 0.0, 0.0], True),
        ([-2.39, -1.0, 0.0, 0.0], True),
        ([0.0, 0.0, 0.2, 0.0], False),
        ([0.0, 0.0, 0.2, 1.0], True),
        ([0.0, 0.0, -0.2, -1.0], True),
    ],
)
def test_episodes_terminate_beyond_the_limits(state, expected):
    *_, terminated = step(state, 1)
    assert terminated == expected
