import numpy as np
import tensorflow as tf

from agents.graph import acrobot
from agents.tensor_envs import Acrobot
from tests.graph import comparison

REFERENCE = comparison.Reference(
    "Acrobot-v1",
    max_state=[np.pi, np.pi, 4 * np.pi, 9 * np.pi],
    step_tolerance=1e-12,
    # Both compute in float64 and round observations to float32; chaos amplifies errors of 1e-16 to
    # about 1e-6 in 20 seconds.
    episode_tolerance=1e-5,
)


def energy(state):
    """Kinetic and potential energy of two links of length 1, mass 1 and moment of inertia 1."""
    first, second, first_speed, second_speed = state
    cos = tf.cos(second)
    kinetic = (
        0.5 * (3.5 + cos) * first_speed**2
        + (1.25 + 0.5 * cos) * first_speed * second_speed
        + 0.5 * 1.25 * second_speed**2
    )
    return kinetic - 9.8 * (1.5 * tf.cos(first) + 0.5 * tf.cos(first + second))


def random_state(num_envs):
    states = np.random.default_rng(0).uniform(-3, 3, (4, num_envs))
    return tuple(tf.constant(row) for row in states)  # float64 [B] each.


def test_energy_changes_by_the_power_of_the_torque():
    state, torque = random_state(100), tf.constant(0.7, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(state)
        total = energy(state)
    slopes = tape.gradient(total, state)
    derivatives = acrobot._derivatives(state, torque)
    power = sum(slope * change for slope, change in zip(slopes, derivatives, strict=True))
    np.testing.assert_allclose(power, torque * state[3], rtol=1e-9, atol=1e-9)


def test_the_integration_is_of_fourth_order():
    rates = np.array([-1.0, 1.0, -0.5, 0.5])
    start = tuple(tf.ones([4, 1], tf.float64))

    def error(duration):
        state = acrobot._runge_kutta(
            lambda state: tuple(rate * value for rate, value in zip(rates, state, strict=True)),
            start,
            duration,
        )
        return np.abs(np.ravel(state) - np.exp(rates * duration))

    # The error of a step is of fifth order, so half the step has a 32nd of the error.
    np.testing.assert_allclose(error(0.1) / error(0.05), 32, rtol=0.1)


def test_the_terminal_step_is_free():
    up = tuple(tf.constant([value], tf.float64) for value in (np.pi, 0.0, 0.0, 0.0))
    down = tuple(tf.constant([value], tf.float64) for value in (0.0, 0.0, 0.0, 0.0))
    for state, expected in ((up, (0, True)), (down, (-1, False))):
        _, reward, terminated = Acrobot().step(state, tf.constant([1]), uniform=None)
        assert (float(reward[0]), bool(terminated[0])) == expected
