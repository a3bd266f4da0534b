"""Steps with random actions, checked as training does."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from gymnasium import spaces

from agents.environments.data_check import DataCheck, check_types, unpack_reset
from agents.environments.wrappers.action_mask import KEY
from agents.spaces import leaf_spaces

if TYPE_CHECKING:
    from agents.types import Env, Info, NestedArray, Space


class Scale:
    """The scale of numbers that are added one observation [O] after another.

    Attributes:
      count: How many were added.
      largest: float64 [O], the largest magnitudes.
    """

    def __init__(self, size: int):
        """Starts without observations of O = `size` numbers."""
        self.count, self.largest = 0, np.zeros(size)
        # Differences from the first observation keep the digits that squares of large numbers lose.
        self._first, self._sum, self._squares = np.zeros((3, size))

    def add(self, numbers: np.ndarray) -> None:
        """Adds an observation, float64 [O]."""
        if not self.count:
            self._first = numbers
        self.count += 1
        self.largest = np.maximum(self.largest, np.abs(numbers))
        with np.errstate(over="ignore"):  # Such numbers are reported as too large.
            difference = numbers - self._first
            self._sum = self._sum + difference
            self._squares = self._squares + difference**2

    def deviation(self) -> np.ndarray:
        """Returns the standard deviations, float64 [O]."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self._sum / self.count
            return np.sqrt(np.maximum(self._squares / self.count - mean**2, 0.0))


class RandomSteps(NamedTuple):
    """Statistics of random steps.

    Attributes:
      scales: Scales of the observations of steps and resets, by leaf.
      reward: float64 [N], rewards of the steps.
      lengths: Steps of the episodes that ended.
      returns: Their sums of rewards.
      truncated: Whether they were truncated.
      step_seconds: Mean time of a step.
      reset_seconds: Mean time of a reset.
      longest_seconds: Longest time of a step or a reset.
      outside: The first number of each part of observations that was out of bounds, in words that
        begin with "returned".
      masked: Place of action masks: "infos", "observations", or empty.
      num_blocked: Steps at which the mask allowed no action.
    """

    scales: list[Scale]
    reward: np.ndarray
    lengths: list[int]
    returns: list[float]
    truncated: list[bool]
    step_seconds: float
    reset_seconds: float
    longest_seconds: float
    outside: list[str]
    masked: str
    num_blocked: int


def take_random_steps(
    env: Env, num_steps: int, seed: int, action_mask: bool = False
) -> RandomSteps:
    """Takes random steps, and checks their results as training does.

    Args:
      env: The environment.
      num_steps: Number of steps.
      seed: Seed of the environment and the actions.
      action_mask: Whether to take only actions that the environment's masks allow.

    Raises:
      DataError: The environment returned something that stops training.
    """
    env.action_space.seed(seed)
    outside: list[str] = []
    check = DataCheck(env.observation_space, num_envs=1, report=outside.append)
    scales = [Scale(math.prod(leaf.shape)) for leaf in leaf_spaces(env.observation_space)]
    rewards: list[float] = []
    lengths: list[int] = []
    returns: list[float] = []
    truncations: list[bool] = []
    step_seconds: list[float] = []
    reset_seconds: list[float] = []
    given_seed: int | None = seed
    begins, masked, num_blocked = True, "", 0
    while len(rewards) < num_steps:
        if begins:
            start = time.perf_counter()
            observ, info = unpack_reset(env.reset(seed=given_seed))
            reset_seconds.append(time.perf_counter() - start)
            _add(scales, check, observ)
            begins, given_seed, sum_of_rewards, length = False, None, 0.0, 0
        if has_mask(observ, info):
            masked = "observations" if _observes_mask(observ) else "infos"
            masks = _masks(env.action_space, observ, info)
            num_blocked += not all(mask.any() for mask in masks)
        action = (
            sample_action(env.action_space, observ, info)
            if action_mask
            else env.action_space.sample()
        )
        start = time.perf_counter()
        observ, reward, terminated, truncated, info = env.step(action)
        step_seconds.append(time.perf_counter() - start)
        check_types(reward, terminated, truncated, info)
        _add(scales, check, observ)
        rewards.append(float(reward))
        sum_of_rewards, length = sum_of_rewards + float(reward), length + 1
        if terminated or truncated:
            lengths.append(length)
            returns.append(sum_of_rewards)
            truncations.append(bool(truncated))
            begins = True
    return RandomSteps(
        scales,
        np.asarray(rewards),
        lengths,
        returns,
        truncations,
        float(np.mean(step_seconds)),
        float(np.mean(reset_seconds)),
        max(step_seconds + reset_seconds),
        outside,
        masked,
        num_blocked,
    )


def has_mask(observ: NestedArray, info: Info) -> bool:
    """Returns whether an observation or an info holds an action mask."""
    return _observes_mask(observ) or KEY in info


def sample_action(space: Space, observ: NestedArray, info: Info) -> NestedArray:
    """Samples an action that is valid by the action mask of a Discrete or MultiDiscrete space."""
    masks = _masks(space, observ, info)
    with contextlib.suppress(AssertionError, ValueError):  # No mask of these actions.
        if masks:
            return space.sample(mask=masks[0] if isinstance(space, spaces.Discrete) else masks)
    return space.sample()


def _masks(space: Space, observ: NestedArray, info: Info) -> tuple[np.ndarray, ...]:
    """Returns the action masks of the choices of a Discrete or MultiDiscrete space, int8 each, if any."""
    mask = (observ if _observes_mask(observ) else info).get(KEY)
    if mask is None or not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return ()
    parts = mask if isinstance(mask, list | tuple) else [mask]  # One for each choice, or for all.
    try:
        joined = np.concatenate([np.ravel(part) for part in parts]).astype(np.int8)  # [K]
    except (TypeError, ValueError):
        return ()
    if isinstance(space, spaces.Discrete):
        return (joined,)
    return tuple(np.split(joined, np.cumsum(space.nvec)[:-1]))


def _observes_mask(observ: NestedArray) -> bool:
    return isinstance(observ, dict) and KEY in observ


def _add(scales: Sequence[Scale], check: DataCheck, observ: NestedArray) -> None:
    """Adds an observation to the scales of its leaves.

    Raises:
      DataError: Its structure, a shape, a type or a number stops training.
    """
    leaves = check.leaves(observ)
    check.check_bounds([leaf[None] for leaf in leaves], 0)
    for scale, leaf in zip(scales, leaves, strict=True):
        scale.add(leaf.astype(np.float64).ravel())
