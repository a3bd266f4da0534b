"""Environments in TensorFlow equal those of Gymnasium."""

import dataclasses

import gymnasium
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from agents import tensor_envs
from agents.graph import tensor_registration as registration

NUM_ENVS = 100


@dataclasses.dataclass(frozen=True)
class Reference:
    """An environment of Gymnasium, and how closely its counterpart follows it.

    Attributes:
      id: Environment id, the same for both.
      max_state: Random states are in [-max_state, max_state] around `center`; wide enough that
        angles wrap around, speeds are clipped and episodes end.
      tolerance: Of states after one step, relative and absolute.
      center: Center of random states.
      dtype: Type of states.
      terminates: Whether there are terminal states.
    """

    id: str
    max_state: list[float]
    tolerance: float
    center: float | list[float] = 0.0
    dtype: type[np.floating] = np.float64
    terminates: bool = True

    def random_states(self, generator):
        """States [B, size of a state]."""
        high = np.array(self.max_state)
        states = generator.uniform(-high, high, (NUM_ENVS, len(high)))
        return (states + self.center).astype(self.dtype)


ACROBOT = Reference("Acrobot-v1", [np.pi, np.pi, 4 * np.pi, 9 * np.pi], 1e-12)
CART_POLE = Reference("CartPole-v1", [2.4, 4, 0.2, 4], 1e-13)
# Gymnasium computes in float32, and rounds the state to it.
MOUNTAIN_CAR = Reference(
    "MountainCarContinuous-v0", [0.6, 0.07], 1e-7, center=[-0.3, 0], dtype=np.float32
)
# Gymnasium computes the torque in float32.
PENDULUM = Reference("Pendulum-v1", [10, 8], 1e-7, terminates=False)
REFERENCES = [ACROBOT, CART_POLE, MOUNTAIN_CAR, PENDULUM]
every_env = pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.id)


class Pair:
    """A batch of environments in TensorFlow and as many of Gymnasium's."""

    def __init__(self, reference, time_limit):
        self.ours = tensor_envs.make(reference.id, NUM_ENVS, max_episode_steps=time_limit)
        self.theirs = [
            gymnasium.make(reference.id, max_episode_steps=time_limit, disable_env_checker=True)
            for _ in range(NUM_ENVS)
        ]
        self._simulate = tf.function(self.ours.simulate, jit_compile=True)
        self.ours.reset(seed=tf.range(NUM_ENVS, dtype=tf.int64))

    @property
    def states(self):
        """Our states [B, size of a state]."""
        return np.stack([leaf.numpy() for leaf in self.ours._state], axis=1)

    def assign_states(self, states, started):
        """Starts Gymnasium's episodes where `started`, bool [B], and assigns states to both."""
        for row in np.flatnonzero(started):
            self.theirs[row].reset()
        for variable, column in zip(self.ours._state, states.T, strict=True):
            variable.assign(column)
        for env, state in zip(self.theirs, states, strict=True):
            env.unwrapped.state = state.copy()

    def step(self, actions):
        """Steps both, compares the results, and returns terminated and truncated [B]."""
        result = self._simulate(tf.constant(actions))
        steps = [env.step(action)[:4] for env, action in zip(self.theirs, actions, strict=True)]
        observ, reward, terminated, truncated = map(np.array, zip(*steps, strict=True))
        terminated, truncated = terminated.astype(bool), truncated.astype(bool)  # [B]
        # In all rows: a state so close to a limit that rounding decides would be a rare accident.
        np.testing.assert_array_equal(result.terminated, terminated)
        np.testing.assert_array_equal(result.truncated, truncated)
        np.testing.assert_allclose(result.final_observ, observ, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(result.reward, reward, rtol=1e-6, atol=1e-6)
        going_on = ~(terminated | truncated)
        # A compiled program may compute the same number twice, and round it in two ways.
        np.testing.assert_allclose(
            self.ours.observ.numpy()[going_on],
            result.final_observ.numpy()[going_on],
            rtol=1e-6,
            atol=1e-6,
        )
        return terminated, truncated


@every_env
def test_steps_equal_gymnasiums(reference):
    """Compares 11,000 steps from equal states, which are nearly all different."""
    pair = Pair(reference, time_limit=45)
    space = pair.ours.action_space
    is_box = isinstance(space, gymnasium.spaces.Box)
    generator = np.random.default_rng(0)
    num_terminated, num_truncated, num_clipped = 0, 0, 0
    done = np.ones(NUM_ENVS, bool)
    for _ in range(110):
        # Every second episode starts in a random state, the others in initial states.
        anywhere = done & (generator.random(NUM_ENVS) < 0.5)
        states = np.where(anywhere[:, None], reference.random_states(generator), pair.states)
        pair.assign_states(states, started=done)
        if is_box:  # Half of the rows include actions that are clipped.
            actions = generator.uniform(space.low, space.high, (NUM_ENVS, *space.shape))
            actions = actions.astype(space.dtype)
            actions[NUM_ENVS // 2 :] *= 1.5
            num_clipped += np.sum(np.abs(actions) > space.high)
        else:
            actions = generator.integers(space.n, size=NUM_ENVS)
        terminated, truncated = pair.step(actions)
        done = terminated | truncated
        expected = np.array([env.unwrapped.state for env in pair.theirs])[~done]
        np.testing.assert_allclose(
            pair.states[~done], expected, rtol=reference.tolerance, atol=reference.tolerance
        )
        num_terminated += terminated.sum()
        num_truncated += truncated.sum()
    assert num_terminated + num_truncated >= 100 and num_truncated >= 10
    assert (num_terminated >= 10) == reference.terminates
    assert (num_clipped > 1000) == is_box


@every_env
def test_specifications_equal_gymnasiums(reference):
    ours, theirs = tensor_envs.make(reference.id, 1), gymnasium.make(reference.id)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    spec = registration.find_spec(reference.id)
    assert spec.max_episode_steps == theirs.spec.max_episode_steps


@every_env
def test_initial_observations_are_distributed_as_gymnasiums(reference):
    num_envs = 2000
    ours, theirs = tensor_envs.make(reference.id, num_envs), gymnasium.make(reference.id)
    observs = ours.reset(seed=tf.range(num_envs, dtype=tf.int64)).numpy()  # [B, O]
    expected = np.array([theirs.reset(seed=seed)[0] for seed in range(num_envs)])  # [B, O]
    assert observs.dtype == expected.dtype
    for component, other in zip(observs.T, expected.T, strict=True):
        assert scipy.stats.ks_2samp(component, other).pvalue > 0.001


@pytest.mark.parametrize(
    ("reference", "state", "arguments", "reward"),
    [
        (CART_POLE, [0.0, 0.0, 0.3, 0.0], {"sutton_barto_reward": True}, -1),
        (CART_POLE, [0.0, 0.0, 0.0, 0.0], {"sutton_barto_reward": True}, 0),
        (CART_POLE, [0.0, 0.0, 0.3, 0.0], {}, 1),
        (MOUNTAIN_CAR, [0.44, 0.03], {"goal_velocity": 0.05}, None),
        (MOUNTAIN_CAR, [0.44, 0.03], {}, None),
        (PENDULUM, [1.0, 2.0], {"g": 3.0}, None),
    ],
)
def test_constructors_take_gymnasiums_arguments(reference, state, arguments, reward):
    ours = tensor_envs.make(reference.id, 1, **arguments)
    theirs = gymnasium.make(reference.id, **arguments)
    state = np.array(state, reference.dtype)
    theirs.reset()
    theirs.unwrapped.state = state
    for variable, value in zip(ours._state, state, strict=True):
        variable.assign([value])
    theirs.action_space.seed(0)
    action = theirs.action_space.sample()
    result = ours.simulate(tf.constant(np.asarray(action)[None]))
    observ, expected, terminated, *_ = theirs.step(action)
    np.testing.assert_allclose(result.final_observ[0], observ, rtol=1e-6)
    np.testing.assert_allclose(result.reward[0], expected, rtol=1e-6)
    assert result.terminated[0] == terminated
    assert reward is None or expected == reward
    if reference is MOUNTAIN_CAR:
        assert terminated == (not arguments)
