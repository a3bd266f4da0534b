"""Inspects an environment: whether it keeps Gymnasium's rules, and whether it can be learned.

What it finds comes with what to change. The command `agents check` prints it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from agents.environments.data_check import DataCheck, DataError, check_types, unpack_reset
from agents.environments.wrappers.action_mask import KEY
from agents.spaces import flatten, leaf_paths, leaf_spaces

if TYPE_CHECKING:
    from agents.types import Env, EnvConstructor, Info, Leaves, NestedArray, Space

# Steps after which episodes that start from the same seed are taken for equal.
_COMPARED_STEPS = 200
# Float32 has 24 bits: of numbers this many times as large as what changes in them, 1 % is lost.
_LOST_BELOW = 100 * 2.0**-24
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
# A policy starts with actions around 0, of deviation 1: bounds that it reaches, and does not always exceed.
_SMALLEST_BOUND, _LARGEST_BOUND = 0.1, 10.0


class Finding(NamedTuple):
    """Something to change in an environment, or in the settings it is trained with.

    Attributes:
      is_error: Whether training would stop, or learn something wrong.
      problem: What was found.
      advice: What to do.
    """

    is_error: bool
    problem: str
    advice: str


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


class Experience(NamedTuple):
    """Random steps.

    Attributes:
      scales: Scales of the observations of steps and resets, by leaf.
      reward: float64 [N], rewards of the steps.
      lengths: Steps of the episodes that ended.
      returns: Their sums of rewards.
      step_seconds: Median time of a step.
      reset_seconds: Median time of a reset.
    """

    scales: list[Scale]
    reward: np.ndarray
    lengths: list[int]
    returns: list[float]
    step_seconds: float
    reset_seconds: float


class Inspection(NamedTuple):
    """What an inspection has seen.

    Attributes:
      observation_space: The environment's.
      action_space: The environment's.
      time_limit: Steps after which Gymnasium cuts episodes; None for no limit.
      experience: Random steps; None where the environment returned something that it must not.
      findings: What to change.
    """

    observation_space: Space
    action_space: Space
    time_limit: int | None
    experience: Experience | None
    findings: list[Finding]


def inspect_env(make: EnvConstructor, num_steps: int = 1000, seed: int = 0) -> Inspection:
    """Inspects the environments that a function makes.

    Args:
      make: Makes an environment; called several times.
      num_steps: Random steps to take.
      seed: Seed of the environment and the actions.

    Raises:
      UnsupportedSpaceError: A space is not made of arrays.
    """
    env = make()
    try:
        observation_space, action_space = env.observation_space, env.action_space
        leaf_spaces(observation_space), leaf_spaces(action_space)
        time_limit = find_time_limit(env)
        findings = check_interface(env.unwrapped)
        findings += check_actions(action_space)
        experience = None
        try:
            experience = take_random_steps(env, num_steps, seed)
            findings += check_seeds(env, make, seed)
        except DataError as error:
            advice = "return elements of its spaces; training stops at such a step, too"
            findings.append(Finding(True, f"the environment {error}", advice))
    finally:
        env.close()
    if experience:
        findings += check_observations(observation_space, experience)
        findings += check_rewards(experience)
        findings += check_episodes(time_limit, experience)
    findings = sorted(findings, key=lambda finding: not finding.is_error)
    return Inspection(observation_space, action_space, time_limit, experience, findings)


def find_time_limit(env: Env) -> int | None:
    """Returns after how many steps Gymnasium's wrapper cuts episodes; None if there is none."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return int(env._max_episode_steps)
        env = env.env
    return None


def take_random_steps(env: Env, num_steps: int, seed: int) -> Experience:
    """Takes random steps, and checks what they return as training does.

    Raises:
      DataError: The environment returned something that is not in its spaces.
    """
    env.action_space.seed(seed)
    check = DataCheck(env.observation_space, num_envs=1)
    scales = [Scale(math.prod(leaf.shape)) for leaf in leaf_spaces(env.observation_space)]
    rewards: list[float] = []
    lengths: list[int] = []
    returns: list[float] = []
    step_seconds: list[float] = []
    reset_seconds: list[float] = []
    given_seed: int | None = seed
    begins = True
    while len(rewards) < num_steps:
        if begins:
            start = time.perf_counter()
            observ, info = unpack_reset(env.reset(seed=given_seed))
            reset_seconds.append(time.perf_counter() - start)
            _add(scales, _checked(check, observ))
            begins, given_seed, sum_of_rewards, length = False, None, 0.0, 0
        action = sample_action(env.action_space, observ, info)
        start = time.perf_counter()
        observ, reward, terminated, truncated, info = env.step(action)
        step_seconds.append(time.perf_counter() - start)
        check_types(reward, terminated, truncated, info)
        _add(scales, _checked(check, observ))
        rewards.append(float(reward))
        sum_of_rewards, length = sum_of_rewards + float(reward), length + 1
        if terminated or truncated:
            lengths.append(length)
            returns.append(sum_of_rewards)
            begins = True
    medians = float(np.median(step_seconds)), float(np.median(reset_seconds))
    return Experience(scales, np.asarray(rewards), lengths, returns, *medians)


def sample_action(space: Space, observ: NestedArray, info: Info) -> NestedArray:
    """Samples a valid action; an action mask of a Discrete space counts."""
    masks = observ if isinstance(observ, dict) and KEY in observ else info
    if KEY in masks and isinstance(space, spaces.Discrete):
        return space.sample(mask=np.asarray(masks[KEY], np.int8))
    return space.sample()


def check_interface(env: Env) -> list[Finding]:
    """Runs Gymnasium's checker on an environment without wrappers.

    Not where actions are masked: it takes any action. What it says of seeds and of bounds is left to
    `check_seeds` and to what bounds do to learning.
    """
    advice = "see gymnasium.farama.org, Make your own custom environment"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            observ, info = env.reset(seed=0)
            if KEY in info or (isinstance(observ, dict) and KEY in observ):
                return []
            check_env(env, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # Of its assertions, or of the environment.
            reason = " ".join(str(error).split()) or type(error).__name__
            if reason.startswith("Deterministic"):
                return []
            return [Finding(True, f"Gymnasium's checker: {reason}", advice)]
    texts = dict.fromkeys(_without_prefix(str(warning.message)) for warning in caught)
    kept = [text for text in texts if not any(word in text for word in ("Box", "space", "Casting"))]
    return [Finding(False, f"Gymnasium's checker: {text}", advice) for text in kept]


def check_seeds(env: Env, make: EnvConstructor, seed: int) -> list[Finding]:
    """Checks that a seed determines an episode: in a new environment, and in a used one."""
    new = make()
    try:
        first = list(_episode(new, seed))
    finally:
        new.close()
    # It was used by `take_random_steps`.
    again = list(_episode(env, seed))
    other = make()
    try:
        second = list(_episode(other, seed))
    finally:
        other.close()
    if step := _first_difference(first, second):
        return [
            Finding(
                False,
                f"two environments that are reset with the same seed differ {step}",
                "draw random numbers from self.np_random only, after super().reset(seed=seed); otherwise "
                "no run can be repeated",
            )
        ]
    if step := _first_difference(first, again):
        return [
            Finding(
                False,
                "an environment that was used before and is reset with a seed differs from a new one "
                f"{step}",
                "initialize everything in reset; or let a function make it, which returns "
                "agents.tools.wrappers.RebuildOnSeed(MyEnv). Otherwise resumed runs are not exact",
            )
        ]
    return []


def check_actions(space: Space) -> list[Finding]:
    """Checks that a policy reaches the bounds of actions, whose first samples are around 0."""
    findings = []
    for name, leaf in _named_leaves(space, "actions"):
        if not isinstance(leaf, spaces.Box) or leaf.dtype.kind != "f":
            continue
        low, high = leaf.low.astype(np.float64), leaf.high.astype(np.float64)
        finite = np.isfinite(low) & np.isfinite(high)
        far = finite & ((high > _LARGEST_BOUND) | (low < -_LARGEST_BOUND))
        narrow = finite & (high < _SMALLEST_BOUND) & (low > -_SMALLEST_BOUND)
        beside = finite & ((low > 0) | (high < 0))
        for which, reason in (
            (far, "the policy's first actions are around 0 with deviation 1, and reach little of"),
            (narrow, "the policy's first actions have deviation 1, so that most are clipped to"),
            (beside, "the policy's first actions are around 0, outside of"),
        ):
            if which.any():
                bounds = f"[{low[which][0]:g}, {high[which][0]:g}]"
                advice = "scale them: --env-wrappers=agents.tools.wrappers:RangeNormalize"
                findings.append(Finding(False, f"{name}: {reason} {bounds}", advice))
                break
    return findings


def check_observations(space: Space, experience: Experience) -> list[Finding]:
    """Checks that what changes in observations is left in 32 bits."""
    findings = []
    for (name, leaf), scale in zip(
        _named_leaves(space, "observations"), experience.scales, strict=True
    ):
        if not isinstance(leaf, spaces.Box) or leaf.dtype == np.uint8:
            continue
        largest, deviation = scale.largest, scale.deviation()  # [O]
        if (largest > _LARGEST_FLOAT).any():
            problem = f"{name}: {largest.max():g} is too large for float32, which networks take"
            findings.append(Finding(True, problem, "scale or clip it in the environment"))
        elif (lost := (deviation > 0) & (deviation < _LOST_BELOW * largest)).any():
            index = int(np.argmax(lost))
            problem = (
                f"{name}: number {index} is around {largest[index]:.4g} and changes by "
                f"{deviation[index]:.2g}, of which float32 keeps little"
            )
            advice = "observe differences, such as the time since the reset instead of the time"
            findings.append(Finding(False, problem, advice))
    return findings


def check_rewards(experience: Experience) -> list[Finding]:
    """Checks that random actions get different rewards."""
    reward = experience.reward  # [N]
    if np.ptp(reward) > 0 or len(set(experience.lengths)) > 1:
        return []
    return [
        Finding(
            False,
            f"the reward was {reward[0]:g} in all {len(reward):,} random steps",
            "nothing can be learned until actions change it: reward progress, or start nearer to the goal",
        )
    ]


def check_episodes(time_limit: int | None, experience: Experience) -> list[Finding]:
    """Checks that episodes end."""
    if time_limit or experience.lengths:
        return []
    return [
        Finding(
            False,
            f"no episode ended in {len(experience.reward):,} random steps, and there is no time limit",
            "--max-episode-steps=1000 cuts episodes, so that evaluations end",
        )
    ]


def _checked(check: DataCheck, observ: NestedArray) -> Leaves:
    """Returns copies of the leaves of an observation.

    Raises:
      DataError: It is not in the space.
    """
    leaves = [np.array(leaf) for leaf in check.leaves(observ)]
    check.check_bounds([leaf[None] for leaf in leaves], 0)
    return leaves


def _add(scales: Sequence[Scale], leaves: Leaves) -> None:
    for scale, leaf in zip(scales, leaves, strict=True):
        scale.add(leaf.astype(np.float64).ravel())


def _episode(env: Env, seed: int) -> Iterator[list[np.ndarray]]:
    """Yields what the first steps after a seeded reset return: leaves, reward and flags."""
    env.action_space.seed(seed)
    observ, info = env.reset(seed=seed)
    yield [np.array(leaf) for leaf in flatten(env.observation_space, observ)]
    for _ in range(_COMPARED_STEPS):
        action = sample_action(env.action_space, observ, info)
        observ, reward, terminated, truncated, info = env.step(action)
        leaves = flatten(env.observation_space, observ)
        yield [np.array(each) for each in (*leaves, reward, terminated, truncated)]
        if terminated or truncated:
            return


def _first_difference(first: list[list[np.ndarray]], second: list[list[np.ndarray]]) -> str:
    """Returns where two episodes differ, as "after 3 steps"; empty if they do not."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if not all(map(_equal, one, other)):
            return f"after {index} steps" if index else "at once"
    return "" if len(first) == len(second) else f"after {min(len(first), len(second))} steps"


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _named_leaves(space: Space, name: str) -> Iterator[tuple[str, Space]]:
    for path, leaf in zip(leaf_paths(space), leaf_spaces(space), strict=True):
        yield name + "".join(f"[{key!r}]" for key in path), leaf


def _without_prefix(text: str) -> str:
    """Returns the text of a warning of Gymnasium without colors and "WARN: "."""
    return text.replace("\033[33m", "").replace("\033[0m", "").removeprefix("WARN: ").strip()
