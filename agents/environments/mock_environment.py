"""An environment for tests: random observations, episodes of known length, counted steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from agents.environments.wrappers.interface import Reset, Step
from agents.types import NestedArray, Options

Ending = Literal["terminated", "truncated", "both"]


class MockEnvironment(gymnasium.Env):
    """Returns random observations and rewards, and counts its steps and episodes.

    Observations are float32 in [0, 1] of shape `observ_shape`, rewards floats in [-1, 1], actions
    float32 in [0, 1] of shape `action_shape`. All random numbers, durations included, derive from
    the seed of `reset(seed=...)`.

    Attributes:
      steps: Number of steps of every episode so far, one entry per reset; the last entry is the
        current episode.
      durations: Number of steps after which each of these episodes ends.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        observ_shape: Sequence[int],
        action_shape: Sequence[int],
        min_duration: int,
        max_duration: int,
        ending: Ending = "terminated",
    ):
        """Initializes the environment.

        Args:
          observ_shape: Shape of the observations.
          action_shape: Shape of the actions.
          min_duration: Smallest number of steps of an episode, at least 1.
          max_duration: Largest number of steps of an episode, at least `min_duration`.
          ending: The flag, or both flags, that the last step of an episode sets.

        Raises:
          ValueError: The durations are not in order, or the ending is unknown.
        """
        if not 1 <= min_duration <= max_duration:
            raise ValueError(
                f"Durations must be 1 <= min <= max, got min {min_duration} and max {max_duration}"
            )
        if ending not in get_args(Ending):
            raise ValueError(
                f"The ending must be one of {', '.join(get_args(Ending))}, got {ending!r}"
            )
        self.observation_space: spaces.Box = spaces.Box(0, 1, tuple(observ_shape), np.float32)
        self.action_space: spaces.Box = spaces.Box(0, 1, tuple(action_shape), np.float32)
        self.steps: list[int] = []
        self.durations: list[int] = []
        self._min_duration = min_duration
        self._max_duration = max_duration
        self._ending = ending

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Starts an episode, whether or not the previous one has ended; ignores the options."""
        super().reset(seed=seed)
        self.steps.append(0)
        self.durations.append(
            int(self.np_random.integers(self._min_duration, self._max_duration + 1))
        )
        return self._observ(), {}

    def step(self, action: NestedArray) -> Step:
        """Takes a step that does not depend on the action.

        Raises:
          ResetNeeded: There was no reset yet, or the episode has ended.
          ValueError: The action is not in the action space.
        """
        if not self.steps or self.steps[-1] >= self.durations[-1]:
            raise ResetNeeded(
                "MockEnvironment: call reset() before the first step and after the end of an episode"
            )
        if not isinstance(action, np.ndarray) or not self.action_space.contains(action):
            raise ValueError(f"The action must be an array in {self.action_space}, got {action!r}")
        self.steps[-1] += 1
        done = self.steps[-1] >= self.durations[-1]
        terminated = done and self._ending != "truncated"
        truncated = done and self._ending != "terminated"
        return self._observ(), float(self.np_random.uniform(-1, 1)), terminated, truncated, {}

    def _observ(self) -> np.ndarray:
        """Returns a random observation, float32 [*observ_shape]."""
        return np.asarray(
            self.np_random.random(self.observation_space.shape, np.float32), np.float32
        )
