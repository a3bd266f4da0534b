"""Whether actions, observations, rewards and episodes suit a policy that is not trained yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from agents.environments.inspection.finding import Finding
from agents.environments.inspection.random_steps import RandomSteps
from agents.spaces import leaf_paths, leaf_spaces

if TYPE_CHECKING:
    from agents.types import Space

# Float32 has 24 bits: of numbers this many times as large as what changes in them, 1 % is lost.
_LOST_BELOW = 100 * 2.0**-24
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
# A policy starts with actions around 0, of deviation 1: bounds that it reaches, and does not always
# exceed.
_SMALLEST_BOUND, _LARGEST_BOUND = 0.1, 10.0


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


def check_observations(space: Space, steps: RandomSteps) -> list[Finding]:
    """Checks that what changes in observations is left in 32 bits."""
    findings = []
    for (name, leaf), scale in zip(_named_leaves(space, "observations"), steps.scales, strict=True):
        if not isinstance(leaf, spaces.Box) or leaf.dtype == np.uint8:
            continue
        largest, deviation = scale.largest, scale.deviation()  # [O]
        if (largest > _LARGEST_FLOAT).any():
            problem = f"{name}: {np.max(largest):g} is too large for float32, which networks take"
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


def check_rewards(steps: RandomSteps) -> list[Finding]:
    """Checks that random actions get different rewards."""
    reward = steps.reward  # [N]
    if np.ptp(reward) > 0 or len(set(steps.lengths)) > 1:
        return []
    return [
        Finding(
            False,
            f"the reward was {reward[0]:g} in all {len(reward):,} random steps",
            "nothing can be learned until actions change it: reward progress, or start nearer to the goal",
        )
    ]


def check_episodes(time_limit: int | None, steps: RandomSteps) -> list[Finding]:
    """Checks that episodes end."""
    if time_limit or steps.lengths:
        return []
    return [
        Finding(
            False,
            f"no episode ended in {len(steps.reward):,} random steps, and there is no time limit",
            "--max-episode-steps=1000 cuts episodes, so that evaluations end",
        )
    ]


def _named_leaves(space: Space, name: str) -> Iterator[tuple[str, Space]]:
    for path, leaf in zip(leaf_paths(space), leaf_spaces(space), strict=True):
        yield name + "".join(f"[{key!r}]" for key in path), leaf
