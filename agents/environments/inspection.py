"""Inspects an environment, for `agents check`: findings that stop or hinder training."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from agents.environments.action_bounds import far_from_unit
from agents.environments.data_check import DataError, unpack_reset
from agents.environments.families import SELF_LIMITED
from agents.environments.random_steps import (
    RandomSteps,
    has_mask,
    sample_action,
    take_random_steps,
)
from agents.environments.wrappers import ResetOptions
from agents.environments.wrappers.action_mask import KEY
from agents.errors import first_line
from agents.spaces import exceeds_float32, flatten, leaf_paths, leaf_spaces

if TYPE_CHECKING:
    from agents.types import Env, EnvConstructor, Options, Space

# In findings of Gymnasium's checker that other checks of this package make, about bounds and seeds, or
# that are right for training: episodes of one step, and reset options around the environment.
_LEFT_OUT = ("Box", "space", "Casting", "eterministic", "after 1 step", "unwrapped version")

# Steps after which episodes that start from the same seed are taken for equal.
_COMPARED_STEPS = 200

# Float32 has 24 bits: of numbers this many times as large as what changes in them, 1 % is lost.
_LOST_BELOW = 100 * 2.0**-24
# Integers of larger ranges are amounts, or the pixels of images.
_MOST_KINDS = 32
# Shorter tasks may well have a number of rounds.
_SHORTEST_LIMIT = 10

_MASK_ADVICE = "--action-mask=true lets the policy take valid actions only"

_LARGEST_FLOAT = float(np.finfo(np.float32).max)


class Finding(NamedTuple):
    """Something to change in an environment, or in the settings it is trained with.

    Attributes:
      is_error: Whether training would stop, or learn something wrong.
      problem: The problem, with its numbers.
      advice: The change that solves it.
    """

    is_error: bool
    problem: str
    advice: str


class Inspection(NamedTuple):
    """Spaces, random steps and findings of an environment.

    Attributes:
      observation_space: The environment's.
      action_space: The environment's.
      time_limit: Steps after which Gymnasium cuts episodes; None for no limit.
      steps: Random steps; None if the environment returned invalid data.
      findings: Problems, errors first.
    """

    observation_space: Space
    action_space: Space
    time_limit: int | None
    steps: RandomSteps | None
    findings: list[Finding]


def inspect_env(
    make: EnvConstructor,
    num_steps: int = 1000,
    seed: int = 0,
    reset_options: Options | None = None,
    action_mask: bool = False,
) -> Inspection:
    """Inspects the environments that a function makes.

    Args:
      make: Makes an environment; called several times.
      num_steps: Random steps to take.
      seed: Seed of the environment and the actions.
      reset_options: Options that `make` gives to every reset, for Gymnasium's checker.
      action_mask: Whether the policy takes the environment's action masks.

    Raises:
      UnsupportedSpaceError: A space is not made of arrays.
    """
    env = make()
    try:
        observation_space, action_space = env.observation_space, env.action_space
        leaf_spaces(observation_space), leaf_spaces(action_space)
        time_limit = env.spec.max_episode_steps if env.spec else None
        findings = _check_interface(env.unwrapped, reset_options or {})
        findings += _check_actions(action_space)
        steps, ignores_masks = None, False
        try:
            ignores_masks = not action_mask and has_mask(*unpack_reset(env.reset(seed=seed)))
            with warnings.catch_warnings():
                # A finding says how often.
                warnings.filterwarnings("ignore", "action_mask: no action")
                steps = take_random_steps(env, num_steps, seed, action_mask)
            findings += _check_seeds(env, make, seed)
        except DataError as error:
            advice = "return valid data: training stops at such a step"
            findings.append(Finding(True, f"the environment {error}", advice))
        except Exception as error:
            if not ignores_masks:
                raise
            problem = (
                f"a random action raised {type(error).__name__}: {first_line(error)}; training "
                f"ignores the {KEY}"
            )
            findings.append(Finding(True, problem, _MASK_ADVICE))
    finally:
        env.close()
    if steps:
        findings += _check_observations(observation_space, steps)
        findings += _check_rewards(steps)
        ends_itself = env.spec and str(env.spec.entry_point).startswith(SELF_LIMITED)
        findings += _check_episodes(steps, bool(time_limit or ends_itself))
        findings += _check_masks(steps, action_mask)
    findings.sort(key=lambda finding: not finding.is_error)
    return Inspection(observation_space, action_space, time_limit, steps, findings)


def describe(env: str, inspection: Inspection, with_speed: bool = True) -> list[str]:
    """Returns the lines about spaces and random steps."""
    limit, steps = inspection.time_limit, inspection.steps
    own = "the environment's own" if steps and any(steps.truncated) else "none"
    lines = [
        env,
        f"  observations  {inspection.observation_space}",
        f"  actions       {inspection.action_space}",
        f"  time limit    {f'{limit:,} steps' if limit else own}",
    ]
    if not steps:
        return lines
    reward, lengths = steps.reward, steps.lengths
    ended = f"{len(lengths):,} ended" if lengths else "none ended"
    mean = float(len(reward))
    if lengths:
        mean = sum(lengths) / len(lengths)
        ended += f", after {min(lengths):,} to {max(lengths):,} steps (mean {mean:,.0f})"
        returns = np.array(steps.returns)
        ended += f", returns {returns.min():.4g} to {returns.max():.4g} (mean {returns.mean():.4g})"
    lines += [
        f"  random steps  {len(reward):,}, rewards {reward.min():.4g} to {reward.max():.4g}",
        f"  episodes      {ended}",
    ]
    if not with_speed:
        return lines
    speed = 1 / steps.step_seconds
    speed_with_resets = 1 / (steps.step_seconds + steps.reset_seconds / mean)
    resets = f", a reset takes {1e3 * steps.reset_seconds:.3g} ms"
    if speed_with_resets < 0.9 * speed:
        resets += f": {speed_with_resets:,.0f} steps/s with resets"
    return [
        *lines,
        f"  speed         {speed:,.0f} steps/s{resets}",
        f"  longest       {steps.longest_seconds:.3g} s for a step or reset",
    ]


def describe_findings(findings: Sequence[Finding]) -> list[str]:
    """Returns the lines about findings."""
    if not findings:
        return ["Nothing to change."]
    lines = []
    for finding in findings:
        kind = "error" if finding.is_error else "warning"
        lines += [f"{kind}: {finding.problem}", f"  {finding.advice}"]
    return lines


def _check_interface(env: Env, reset_options: Options) -> list[Finding]:
    """Runs Gymnasium's checker on an environment without wrappers.

    Its findings are warnings: environments that can't be trained on also fail in random steps. It
    is skipped for masked actions, because it takes any action.

    Args:
      env: The environment.
      reset_options: Options of every reset.
    """
    advice = "see gymnasium.farama.org, Make your own custom environment"
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            checked = ResetOptions(env, reset_options) if reset_options else env
            observ, info = checked.reset(seed=0)
            if has_mask(observ, info):
                return []
            check_env(checked, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # Of its assertions, or of the environment.
            texts.append(" ".join(str(error).split()) or type(error).__name__)
    for warning in caught:  # In yellow.
        text = str(warning.message).replace("\033[33m", "").replace("\033[0m", "")
        texts.append(text.removeprefix("WARN: ").strip())
    return [
        Finding(False, f"Gymnasium's checker: {text}", advice)
        for text in dict.fromkeys(texts)
        if not any(words in text for words in _LEFT_OUT)
    ]


def _check_seeds(env: Env, make: EnvConstructor, seed: int) -> list[Finding]:
    """Checks that a seed determines an episode: in a new environment, and in a used one."""
    with contextlib.closing(make()) as new:
        first = list(_episode(new, seed))
    # It was used by `take_random_steps`.
    again = list(_episode(env, seed))
    with contextlib.closing(make()) as other:
        second = list(_episode(other, seed))
    if step := _first_difference(first, second):
        problem = f"two environments that are reset with the same seed differ {step}"
        advice = (
            "draw random numbers from self.np_random only, after super().reset(seed=seed), and those of a "
            "TensorEnv from `uniform`; otherwise no run can be repeated"
        )
    elif step := _first_difference(first, again):
        problem = (
            f"a used environment that is reset with a seed differs from a new environment {step}"
        )
        advice = (
            "initialize everything in reset, or make the environment by a function that returns "
            "agents.tools.wrappers.RebuildOnSeed(MyEnv); keep everything that a TensorEnv changes in its "
            "state; otherwise resumed runs are not exact"
        )
    else:
        return []
    return [Finding(False, problem, advice)]


def _episode(env: Env, seed: int) -> Iterator[list[np.ndarray]]:
    """Yields the results of the first steps after a seeded reset: leaves, reward and flags."""
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
    """Returns where two episodes differ, as "at step 3"; empty if they do not."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        pairs = zip(one, other, strict=False)
        if not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs):
            return f"at step {index}" if index else "at once"
    return "" if len(first) == len(second) else f"at step {min(len(first), len(second))}"


def _check_actions(space: Space) -> list[Finding]:
    """Checks that a policy's first actions, which are around 0, are within the bounds.

    The policy scales actions between two finite bounds by itself, see the setting `scale_actions`.
    """
    findings = []
    for name, leaf in _named_leaves(space, "actions"):
        if not isinstance(leaf, spaces.Box) or leaf.dtype.kind != "f":
            continue
        outside = ((leaf.low > 0) | (leaf.high < 0)) & ~far_from_unit(leaf)
        if outside.any():
            bounds = f"[{leaf.low[outside][0]:g}, {leaf.high[outside][0]:g}]"
            problem = f"{name}: the policy's first actions are around 0, outside of {bounds}"
            findings.append(Finding(False, problem, "give the action space two finite bounds"))
    return findings


def _check_observations(space: Space, steps: RandomSteps) -> list[Finding]:
    """Checks that numbers are in bounds, fit into 32 bits, and that what changes is left there.

    Wider ones are normalized before they become float32.
    """
    advice = "widen the bounds of its observation space"
    findings = [Finding(False, f"the environment {returned}", advice) for returned in steps.outside]
    findings += _check_grids(space)
    for (name, leaf), scale in zip(_named_leaves(space, "observations"), steps.scales, strict=True):
        if not isinstance(leaf, spaces.Box) or leaf.dtype == np.uint8:
            continue
        largest, deviation = scale.largest, scale.deviation()  # [O]
        lost = (deviation > 0) & (deviation < _LOST_BELOW * largest)  # [O]
        if (largest > _LARGEST_FLOAT).any():
            problem = f"{name}: {np.max(largest):g} is too large for float32, the type of networks' inputs"
            findings.append(Finding(True, problem, "scale or clip it in the environment"))
        elif lost.any() and not exceeds_float32(leaf):
            index = int(np.argmax(lost))
            problem = (
                f"{name}: number {index} is around {largest[index]:.4g} and changes by "
                f"{deviation[index]:.2g}; float32 keeps little of that change"
            )
            advice = "observe differences, such as the time since the reset instead of the time"
            findings.append(Finding(False, problem, advice))
    return findings


def _check_grids(space: Space) -> list[Finding]:
    """Reports arrays of a few integers, such as the cells of a grid: networks read them as amounts."""
    findings = []
    for name, leaf in _named_leaves(space, "observations"):
        if not isinstance(leaf, spaces.Box) or leaf.dtype.kind not in "iu" or len(leaf.shape) < 2:
            continue
        low, high = int(leaf.low.min()), int(leaf.high.max())
        if 1 < high - low < _MOST_KINDS:  # Of zeros and ones, each is a kind of its own.
            problem = f"{name}: networks read the integers from {low} to {high} as amounts"
            advice = "if they are kinds, such as walls and goals, make the space MultiDiscrete: one-hot vectors"
            findings.append(Finding(False, problem, advice))
    return findings


def _check_rewards(steps: RandomSteps) -> list[Finding]:
    """Checks that rewards fit into 32 bits, and that random actions get different ones."""
    reward = steps.reward  # [N]
    if (largest := np.max(np.abs(reward))) > _LARGEST_FLOAT:
        problem = f"rewards: {largest:g} is too large for float32; training stops at such a step"
        return [Finding(True, problem, "scale or clip it in the environment")]
    if np.ptp(reward) > 0 or len(set(steps.lengths)) > 1:
        return []
    problem = f"the reward was {reward[0]:g} in all {len(reward):,} random steps"
    advice = (
        "a policy learns once its actions change rewards or the length of episodes: reward progress, or start "
        "nearer to the goal"
    )
    return [Finding(False, problem, advice)]


def _check_episodes(steps: RandomSteps, has_limit: bool) -> list[Finding]:
    """Checks that episodes end whatever the policy does, and not all at the same terminal step."""
    lengths = set(steps.lengths)
    if any(steps.truncated):
        return []
    if len(steps.lengths) > 1 == len(lengths) and steps.lengths[0] >= _SHORTEST_LIMIT:
        problem = (
            f"all {len(steps.lengths):,} episodes terminated after {steps.lengths[0]:,} steps, as at a "
            "time limit"
        )
        advice = "at a time limit, return truncated instead of terminated: later steps have a value there"
        return [Finding(False, problem, advice)]
    if has_limit or len(lengths) == 1:  # Episodes of one length end whatever the policy does.
        return []
    ended = f"{len(steps.lengths):,} episodes" if steps.lengths else "no episode"
    problem = f"there is no time limit; {ended} ended in {len(steps.reward):,} random steps"
    advice = "--max-episode-steps=1000 cuts episodes: an evaluation waits for the end of each"
    return [Finding(False, problem, advice)]


def _check_masks(steps: RandomSteps, action_mask: bool) -> list[Finding]:
    """Checks that action masks are used, and that each allows an action."""
    if steps.masked and not action_mask:
        problem = f"the {steps.masked} hold an {KEY}, but training ignores it"
        return [Finding(False, problem, _MASK_ADVICE)]
    if steps.num_blocked and action_mask:
        problem = f"the {KEY} was 0 for all actions at {steps.num_blocked:,} of {len(steps.reward):,} random steps"
        advice = "allow one, such as waiting, or end the episode before: the policy takes any action there"
        return [Finding(False, problem, advice)]
    return []


def _named_leaves(space: Space, name: str) -> Iterator[tuple[str, Space]]:
    for path, leaf in zip(leaf_paths(space), leaf_spaces(space), strict=True):
        yield name + "".join(f"[{key!r}]" for key in path), leaf
