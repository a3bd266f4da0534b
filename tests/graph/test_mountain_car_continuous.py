import numpy as np
import tensorflow as tf

from agents.tensor_envs import MountainCarContinuous
from tests.graph import comparison

REFERENCE = comparison.Reference(
    "MountainCarContinuous-v0",
    max_state=[0.6, 0.07],
    center=[-0.3, 0],
    dtype=np.float32,  # As rounded as it is after every step.
    step_tolerance=1e-7,  # Gymnasium computes in float32.
    # Both round to float32, occasionally to neighboring numbers: errors of 6e-8 add up over 100
    # steps.
    episode_tolerance=1e-5,
)


def step(state, action, **arguments):
    state = [tf.constant([value], tf.float32) for value in state]
    (position, velocity), reward, terminated = MountainCarContinuous(**arguments).step(
        tuple(state), tf.constant([[action]], tf.float32), uniform=None
    )
    return float(position[0]), float(velocity[0]), float(reward[0]), bool(terminated[0])


def test_goal_velocity_is_an_argument_as_in_gymnasium():
    assert comparison.check_arguments(REFERENCE, [0.44, 0.03], goal_velocity=0.05) < 0
    assert comparison.check_arguments(REFERENCE, [0.44, 0.03]) > 99


def test_the_goal_is_rewarded_and_force_is_penalized():
    *_, reward, terminated = step([0.44, 0.03], 0.5)
    assert terminated
    np.testing.assert_allclose(reward, 100 - 0.1 * 0.5**2, rtol=1e-6)
    *_, reward, terminated = step([-0.5, 0.0], 0.5)
    assert not terminated
    np.testing.assert_allclose(reward, -0.1 * 0.5**2, rtol=1e-6)


def test_the_left_wall_stops_the_car():
    position, velocity, *_ = step([-1.19, -0.05], 0.0)
    np.testing.assert_allclose(position, -1.2, rtol=1e-6)
    assert velocity == 0
