"""Toy environments for tests: configurable, without TensorFlow.

Worker processes import this module by name, so that its classes travel to them as constructors, as
they are or in `functools.partial`. Functions and classes of a test module, which workers should not
import, need `cloudpickle.register_pickle_by_value`. Toys that fail are in `tests/faulty_toys.py`,
those in TensorFlow in `tests/tensor_toys.py`.
"""

import copy
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

UNBOUNDED = spaces.Box(-np.inf, np.inf, (2,), np.float32)
FORCE = spaces.Box(-1, 1, (1,), np.float32)
TWO_CHOICES, THREE_CHOICES = spaces.Discrete(2), spaces.Discrete(3)

# Leaves of all kinds, nested; a count fits into each.
COUNTS = spaces.Dict(
    image=spaces.Box(0, 255, (4, 4), np.uint8),
    number=spaces.Discrete(10**6),
    pair=spaces.Tuple(
        [spaces.Box(-1, 1e6, (), np.float64), spaces.Box(-1, 1e6, (64,), np.float32)]
    ),
)
MIXED_OBSERVATIONS = spaces.Dict(
    camera=spaces.Box(0, 255, (36, 40, 3), np.uint8),
    speed=spaces.Box(-1, 1, (), np.float64),
    place=spaces.Tuple(
        [spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)]
    ),
    count=spaces.Box(-5, 5, (2, 2), np.int32),
)
MIXED_ACTIONS = spaces.Dict(
    steer=spaces.Box(-2, 2, (2, 1), np.float64),
    hands=spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiDiscrete([[2], [3]])]),
    lights=spaces.MultiBinary(2),
)

# Whether an ending sets `terminated`, and whether it sets `truncated`.
ENDINGS = {"terminated": (True, False), "truncated": (False, True), "both": (True, True)}


def fill(space, number):
    """An element of a space with the same number in every leaf, modulo 256 in bytes."""
    if isinstance(space, spaces.Dict):
        return {key: fill(child, number) for key, child in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(fill(child, number) for child in space)
    if isinstance(space, spaces.Discrete):
        return number
    return np.full(space.shape, number % 256 if space.dtype == np.uint8 else number, space.dtype)


def leaf_sum(value):
    """Sum of all numbers of a nested structure."""
    if isinstance(value, dict):
        value = tuple(value.values())
    return sum(map(leaf_sum, value)) if isinstance(value, tuple) else float(np.sum(value))


def read_counts(observ):
    """The counts [..., B] in observations of `COUNTS`, checked to be the same in every leaf."""
    number = np.asarray(observ["number"])
    for leaf, modulus in [(observ["image"], 256), *((part, 10**6) for part in observ["pair"])]:
        flat = np.asarray(leaf).reshape(*number.shape, -1)
        np.testing.assert_array_equal(
            flat, np.broadcast_to((number % modulus)[..., None], flat.shape)
        )
    return number


def constant_reward(steps, action):
    """The reward 1."""
    return 1.0


def squared_steps(steps, action):
    """The reward that is the square of the steps of the episode."""
    return float(steps**2)


def empty_info(steps):
    """The info without anything."""
    return {}


class CountingEnv(gymnasium.Env):
    """Observes its step count in every leaf of its observations; its episodes follow a plan.

    Attributes:
      episode: Index of the episode since the last reset with a seed.
      steps: Steps of the episode so far.
      actions: All actions it was given.
      resets: Seed and options of every reset.
      num_rendered: Number of frames rendered.
      closed: Whether it was closed.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}

    def __init__(
        self,
        episodes=(),
        observation_space=COUNTS,
        action_space=TWO_CHOICES,
        reward=constant_reward,
        info=empty_info,
        start=0,
        stride=0,
        start_at_seed=False,
        stop_action=None,
        name="counter",
        render_mode=None,
        render_size=(32, 48),
    ):
        """Initializes the environment.

        Args:
          episodes: Length and ending (see `ENDINGS`) of each episode, repeated; by default
            episodes never end.
          observation_space: Any space of arrays and dictionaries and tuples of them.
          action_space: Any space.
          reward: Function of the steps of the episode, from 1, and the action.
          info: Function of the steps of the episode, 0 at a reset.
          start: Count at the reset that starts the first episode.
          stride: By how much the count at a reset increases from episode to episode.
          start_at_seed: Whether a seed is the count to start at.
          stop_action: An action that ends the episode, too.
          name: Any attribute, for tests that read and write it.
          render_mode: None or `rgb_array`: frames whose brightness is ten times the steps.
          render_size: Height and width of these frames.
        """
        self.observation_space, self.action_space = observation_space, action_space
        self.name, self.render_mode = name, render_mode
        self.episode, self.steps = -1, 0
        self.actions, self.resets, self.num_rendered, self.closed = [], [], 0, False
        self._episodes, self._stop_action = episodes, stop_action
        self._reward, self._info = reward, info
        self._start, self._stride, self._start_at_seed = start, stride, start_at_seed
        self._render_size = render_size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append((seed, options))
        self.episode = self.episode + 1 if seed is None else 0
        self.steps = 0
        first = self._start + self._stride * self.episode
        self._first = seed if self._start_at_seed and seed is not None else first
        return self._observ(), self._info(0)

    def step(self, action):
        self.actions.append(action)
        self.steps += 1
        length, ending = self._plan()
        assert self.steps <= length, "stepped after the end of its episode"
        done = self.steps == length or (
            self._stop_action is not None and action == self._stop_action
        )
        terminated, truncated = (done and flag for flag in ENDINGS[ending])
        reward = self._reward(self.steps, action)
        return self._observ(), reward, terminated, truncated, self._info(self.steps)

    def render(self):
        self.num_rendered += 1
        return np.full([*self._render_size, 3], 10 * self.steps % 256, np.uint8)

    def add(self, one, two=0):
        return one + two

    def close(self):
        self.closed = True

    def _plan(self):
        if not self._episodes:
            return np.inf, "terminated"
        return self._episodes[self.episode % len(self._episodes)]

    def _observ(self):
        return fill(self.observation_space, self._first + self.steps)


class Step(NamedTuple):
    """A step of a `RandomEnv`."""

    observ: Any
    action: Any
    reward: float
    next_observ: Any
    terminated: bool
    truncated: bool


class RandomEnv(gymnasium.Env):
    """Random observations, rewards and ends of episodes, all of which derive from the seed.

    Rewards are normal around the sum of all numbers of the action, which has to be in its space.

    Attributes:
      observs: All observations.
      history: All steps.
    """

    def __init__(
        self,
        observation_space=UNBOUNDED,
        action_space=FORCE,
        termination=0.1,
        truncation=0.2,
        durations=None,
        ending="terminated",
        mean=0.0,
        std=1.0,
        info=empty_info,
    ):
        """Initializes the environment.

        Args:
          observation_space: Any space; its elements are drawn as Gymnasium draws samples.
          action_space: Any space.
          termination: Probability that a step terminates the episode.
          truncation: Probability that a step truncates the episode.
          durations: Smallest and largest length of episodes, instead of these probabilities.
          ending: Their ending, see `ENDINGS`.
          mean: Mean of the observations of an unbounded Box.
          std: Their standard deviation.
          info: Function of the steps of the episode, 0 at a reset.
        """
        self.observation_space = copy.deepcopy(observation_space)  # Each has its own generator.
        self.action_space = action_space
        self.observs, self.history = [], []
        self._info = info
        self._probabilities = termination, truncation
        self._durations, self._ending = durations, ending
        self._mean, self._std = np.asarray(mean), np.asarray(std)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None or not self.observs:
            self.observation_space.seed(int(self.np_random.integers(1 << 30)))
        if self._durations:
            low, high = self._durations
            self._left = int(self.np_random.integers(low, high + 1))
        self._steps = 0
        return self._observe(), self._info(0)

    def step(self, action):
        assert self.action_space.contains(action), action
        before = self.observs[-1]
        reward = float(np.float32(self.np_random.normal(leaf_sum(action))))
        after, flags = self._observe(), self._flags()
        self.history.append(Step(before, action, reward, after, *flags))
        self._steps += 1
        return after, reward, *flags, self._info(self._steps)

    def _observe(self):
        observ = self.observation_space.sample()
        if self._mean.any() or (self._std != 1).any():
            observ = (self._mean + self._std * observ).astype(self.observation_space.dtype)
        self.observs.append(observ)
        return observ

    def _flags(self):
        if self._durations is None:
            return tuple(bool(flag) for flag in self.np_random.random(2) < self._probabilities)
        self._left -= 1
        return tuple(self._left == 0 and flag for flag in ENDINGS[self._ending])


class ScriptedEnv(gymnasium.Env):
    """Returns given observations, rewards and infos, the first ones at the reset, in one buffer.

    Attributes:
      calls: `reset` with its options, or `step` with its action, for every call.
      buffer: The buffer; None before the first reset.
    """

    def __init__(
        self,
        observs,
        observation_space,
        action_space=THREE_CHOICES,
        rewards=None,
        infos=None,
        terminated_at=None,
        truncated_at=None,
    ):
        """Initializes the environment.

        Args:
          observs: Observations from the reset on; the last one is repeated.
          observation_space: Their space.
          action_space: Any space.
          rewards: Rewards from the first step on; by default 1, 2, 3, ...
          infos: Infos from the reset on; by default `{"steps": 0}`, `{"steps": 1}`, ...
          terminated_at: Step that terminates the episode.
          truncated_at: Step that truncates the episode.
        """
        self.observation_space, self.action_space = observation_space, action_space
        self.calls = []
        self._observs, self._rewards, self._infos = observs, rewards, infos
        self._ends = terminated_at, truncated_at
        self.buffer = None

    @property
    def actions(self):
        return [value for method, value in self.calls if method == "step"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.calls.append(("reset", options))
        self._steps = 0
        return self._observ(), self._info()

    def step(self, action):
        self.calls.append(("step", action))
        self._steps += 1
        reward = self._rewards[self._steps - 1] if self._rewards else float(self._steps)
        flags = (self._steps == end for end in self._ends)
        return self._observ(), reward, *flags, self._info()

    def _observ(self):
        observ = self._observs[min(self._steps, len(self._observs) - 1)]
        if not isinstance(observ, np.ndarray):
            return observ
        self.buffer = observ.copy() if self.buffer is None else self.buffer
        self.buffer[...] = observ
        return self.buffer

    def _info(self):
        return {"steps": self._steps} if self._infos is None else self._infos[self._steps]


class BanditEnv(gymnasium.Env):
    """A contextual bandit: episodes of one step, whose best action depends on the observation.

    The context is 0 or 1. Unmasked, action `start + 1 + context` pays 1, the others 0. Masked,
    every action pays its number, and those above `start + 1 + context` are invalid.
    """

    def __init__(self, num_actions=3, start=0, masked=False):
        """Initializes the environment; `masked` adds an `action_mask` to its observations."""
        self._start, self._masked = start, masked
        self.action_space = spaces.Discrete(num_actions, start=start)
        self.observation_space = spaces.Discrete(2)
        if masked:
            mask = spaces.MultiBinary(num_actions)
            self.observation_space = spaces.Dict(observ=self.observation_space, action_mask=mask)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._context = int(self.np_random.integers(2))
        return self._observ(), {}

    def step(self, action):
        best = self._start + 1 + self._context
        assert action in self.action_space and (not self._masked or action <= best)
        reward = float(action) if self._masked else float(action == best)
        return self.reset()[0], reward, True, False, {}

    def _observ(self):
        if not self._masked:
            return self._context
        mask = np.arange(self.action_space.n) <= 1 + self._context
        return {"observ": self._context, "action_mask": mask.astype(np.int8)}


class CueEnv(gymnasium.Env):
    """Shows one of two cues, then zeros; pays for naming the cue `delay` steps later."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, delay=1):
        """Initializes the environment: episodes have `delay` + 1 steps."""
        self._delay = delay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._cue, self._steps = int(self.np_random.integers(2)), 0
        return np.array([2.0 * self._cue - 1], np.float32), {}

    def step(self, action):
        self._steps += 1
        done = self._steps > self._delay
        return np.zeros(1, np.float32), float(done and action == self._cue), done, False, {}
