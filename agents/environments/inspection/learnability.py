"""Whether actions, observations, rewards and episodes suit a policy that is not trained yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from agents.environments.action_bounds import far_from_unit
from agents.environments.inspection.finding import Finding
from agents.environments.inspection.random_steps import RandomSteps
from agents.environments.wrappers.action_mask import KEY
from agents.spaces import exceeds_float32, leaf_paths, leaf_spaces

if TYPE_CHECKING:
    from agents.types import Space

# Float32 has 24 bits: of numbers this many times as large as what changes in them, 1 % is lost.
_LOST_BELOW = 100 * 2.0**-24
_LARGEST_FLOAT = float(np.finfo(np.float32).max)


def check_actions(space: Space) -> list[Finding]:
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


def check_observations(space: Space, steps: RandomSteps) -> list[Finding]:
    """Checks that numbers are in bounds, fit into 32 bits, and that what changes is left there.

    Wider ones are normalized before they become float32.
    """
    advice = "widen the bounds of its observation space"
    findings = [Finding(False, f"the environment {returned}", advice) for returned in steps.outside]
    for (name, leaf), scale in zip(_named_leaves(space, "observations"), steps.scales, strict=True):
        if not isinstance(leaf, spaces.Box) or leaf.dtype == np.uint8:
            continue
        largest, deviation = scale.largest, scale.deviation()  # [O]
        lost = (deviation > 0) & (deviation < _LOST_BELOW * largest)  # [O]
        if (largest > _LARGEST_FLOAT).any():
            problem = f"{name}: {np.max(largest):g} is too large for float32, which networks take"
            findings.append(Finding(True, problem, "scale or clip it in the environment"))
        elif lost.any() and not exceeds_float32(leaf):
            index = int(np.argmax(lost))
            problem = (
                f"{name}: number {index} is around {largest[index]:.4g} and changes by "
                f"{deviation[index]:.2g}, of which float32 keeps little"
            )
            advice = "observe differences, such as the time since the reset instead of the time"
            findings.append(Finding(False, problem, advice))
    return findings


def check_rewards(steps: RandomSteps) -> list[Finding]:
    """Checks that rewards fit into 32 bits, and that random actions get different ones."""
    reward = steps.reward  # [N]
    if (largest := np.max(np.abs(reward))) > _LARGEST_FLOAT:
        problem = f"rewards: {largest:g} is too large for float32; training stops at such a step"
        return [Finding(True, problem, "scale or clip it in the environment")]
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


def check_masks(steps: RandomSteps) -> list[Finding]:
    """Checks that there are no action masks, where the policy does not take them."""
    if not steps.masked:
        return []
    problem = f"the {steps.masked} hold an {KEY}, which training ignores"
    return [Finding(False, problem, "--action-mask=true lets the policy take valid actions only")]


def _named_leaves(space: Space, name: str) -> Iterator[tuple[str, Space]]:
    for path, leaf in zip(leaf_paths(space), leaf_spaces(space), strict=True):
        yield name + "".join(f"[{key!r}]" for key in path), leaf
