"""Comparison of environments in TensorFlow with Gymnasium's, shared by their tests."""

import dataclasses
from collections.abc import Callable

import gymnasium
import numpy as np
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
      step_tolerance: Of states after one step, relative and absolute.
      episode_tolerance: Of observations and rewards of an episode of 100 steps, relative and
        absolute.
      center: Center of random states.
      dtype: Type of states.
      terminates: Whether there are terminal states.
      choose_actions: Replaces random actions in episodes, given (actions, states, generator), where
        those would end episodes too early.
    """

    id: str
    max_state: list[float]
    step_tolerance: float
    episode_tolerance: float
    center: float | list[float] = 0.0
    dtype: type[np.floating] = np.float64
    terminates: bool = True
    choose_actions: Callable[..., np.ndarray] | None = None

    def random_states(self, generator):
        """States [B, size of a state]."""
        high = np.array(self.max_state)
        states = generator.uniform(-high, high, (NUM_ENVS, len(high)))
        return (states + self.center).astype(self.dtype)


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

    def start_episodes(self, rows):
        for row in np.flatnonzero(rows):
            self.theirs[row].reset()

    def assign_states(self, states, rows):
        """Assigns states to all of our environments and to the given rows of Gymnasium's."""
        for variable, column in zip(self.ours._state, states.T, strict=True):
            variable.assign(column)
        for row in np.flatnonzero(rows):
            self.theirs[row].unwrapped.state = states[row].copy()

    def step(self, actions, tolerance):
        """Steps both, compares the results, and returns terminated and truncated [B]."""
        result = self._simulate(tf.constant(actions))
        steps = [env.step(action)[:4] for env, action in zip(self.theirs, actions, strict=True)]
        observ, reward, terminated, truncated = map(np.array, zip(*steps, strict=True))
        terminated, truncated = terminated.astype(bool), truncated.astype(bool)  # [B]
        # In all rows: a state so close to a limit that rounding decides would be a rare accident.
        np.testing.assert_array_equal(result.terminated, terminated)
        np.testing.assert_array_equal(result.truncated, truncated)
        np.testing.assert_allclose(result.final_observ, observ, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(result.reward, reward, rtol=tolerance, atol=tolerance)
        done = terminated | truncated
        # A compiled program may compute the same number twice, and round it in two ways.
        np.testing.assert_allclose(
            self.ours.observ.numpy()[~done],
            result.final_observ.numpy()[~done],
            rtol=1e-6,
            atol=1e-6,
        )
        return terminated, truncated


def random_actions(space, generator):
    if isinstance(space, gymnasium.spaces.Discrete):
        return generator.integers(space.n, size=NUM_ENVS)
    return generator.uniform(space.low, space.high, (NUM_ENVS, *space.shape)).astype(space.dtype)


def check_episodes(reference):
    """Compares 20,200 steps of episodes of up to 100 steps.

    States are equal where episodes start and evolve separately from there. Every second row starts
    in a random state, the others in the environment's initial states.
    """
    num_steps = 202
    pair = Pair(reference, time_limit=100)
    space = pair.ours.action_space
    is_box = isinstance(space, gymnasium.spaces.Box)
    generator, row = np.random.default_rng(1), np.arange(NUM_ENVS)
    done = np.ones(NUM_ENVS, bool)
    num_episodes, num_truncated, num_clipped = 0, 0, 0
    for _ in range(num_steps):
        states, anywhere = pair.states, done & (row % 2 == 0)
        states = np.where(anywhere[:, None], reference.random_states(generator), states)
        pair.start_episodes(done)
        pair.assign_states(states, rows=done)
        actions = random_actions(space, generator)
        if reference.choose_actions:
            actions = reference.choose_actions(actions, states, generator)
        if is_box:  # Half of the rows include actions that are clipped.
            actions[row % 4 >= 2] *= 1.5
            num_clipped += np.sum(np.abs(actions) > space.high)
        terminated, truncated = pair.step(actions, reference.episode_tolerance)
        done = terminated | truncated
        num_episodes += done.sum()
        num_truncated += truncated.sum()
    assert NUM_ENVS * num_steps >= 10_000 and num_episodes >= 100
    assert num_truncated >= 100
    assert (num_clipped > 1000) == is_box


def check_steps(reference):
    """Compares 11,000 single steps from equal states, which are nearly all different."""
    num_steps = 110
    pair = Pair(reference, time_limit=45)
    generator = np.random.default_rng(0)
    num_terminated, num_truncated = 0, 0
    done = every = np.ones(NUM_ENVS, bool)
    for _ in range(num_steps):
        # Every second episode starts in a random state, the others in initial states.
        anywhere = done & (generator.random(NUM_ENVS) < 0.5)
        states = np.where(anywhere[:, None], reference.random_states(generator), pair.states)
        pair.start_episodes(done)
        pair.assign_states(states, rows=every)
        actions = random_actions(pair.ours.action_space, generator)
        terminated, truncated = pair.step(actions, tolerance=1e-6)
        done = terminated | truncated
        expected = np.array([env.unwrapped.state for env in pair.theirs])[~done]
        tolerance = reference.step_tolerance
        np.testing.assert_allclose(pair.states[~done], expected, rtol=tolerance, atol=tolerance)
        num_terminated += terminated.sum()
        num_truncated += truncated.sum()
    assert NUM_ENVS * num_steps >= 10_000 and num_terminated + num_truncated >= 100
    assert num_truncated >= 10
    assert (num_terminated >= 10) == reference.terminates


def check_specification(reference):
    """Compares spaces and time limits."""
    ours, theirs = tensor_envs.make(reference.id, 1), gymnasium.make(reference.id)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    spec = registration.find_spec(reference.id)
    assert spec.max_episode_steps == theirs.spec.max_episode_steps


def check_initial_observations(reference):
    """Compares the distributions of initial observations."""
    num_envs = 2000
    ours, theirs = tensor_envs.make(reference.id, num_envs), gymnasium.make(reference.id)
    observs = ours.reset(seed=tf.range(num_envs, dtype=tf.int64)).numpy()  # [B, O]
    expected = np.array([theirs.reset(seed=seed)[0] for seed in range(num_envs)])  # [B, O]
    assert observs.dtype == expected.dtype
    for component, other in zip(observs.T, expected.T, strict=True):
        assert scipy.stats.ks_2samp(component, other).pvalue > 0.001


def check_arguments(reference, state, **arguments):
    """Compares a step with arguments of the constructor; returns the reward of Gymnasium's."""
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
    observ, reward, terminated, *_ = theirs.step(action)
    np.testing.assert_allclose(result.final_observ[0], observ, rtol=1e-6)
    np.testing.assert_allclose(result.reward[0], reward, rtol=1e-6)
    assert result.terminated[0] == terminated
    return reward
