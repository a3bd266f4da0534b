import math

import numpy as np
import tensorflow as tf

from agents.tensor_envs import Pendulum
from tests.graph import comparison

REFERENCE = comparison.Reference(
    "Pendulum-v1",
    max_state=[10, 8],
    step_tolerance=1e-7,  # Gymnasium computes the torque in float32.
    # The rounded torque changes the speed by some 1e-8 per step. Errors grow by a factor of 48 per
    # second near the upright position, where the pendulum is for a part of the 5 seconds; the
    # largest observed difference is 7e-5.
    episode_tolerance=1e-3,
    terminates=False,
)


def test_gravity_is_an_argument_as_in_gymnasium():
    comparison.check_arguments(REFERENCE, [1.0, 2.0], g=3.0)


def test_upright_at_rest_is_an_equilibrium_without_cost():
    angles = tf.constant([0.0, 2 * math.pi, math.pi], tf.float64)  # Upright twice, then hanging.
    still, torque = tf.zeros_like(angles), tf.zeros([3, 1])
    (angle, speed), reward, terminated = Pendulum().step((angles, still), torque, uniform=None)
    np.testing.assert_allclose(angle, angles, rtol=1e-12)
    np.testing.assert_allclose(speed, still, atol=1e-12)
    np.testing.assert_allclose(reward, [0, 0, -(math.pi**2)], atol=1e-12)
    assert not np.any(terminated)
