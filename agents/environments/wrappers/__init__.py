"""Wrappers that adjust one environment: its actions, observations, rewards and episodes.

All of them keep `terminated` and `truncated` apart. All but `RebuildOnSeed` take part in
`env.spec`. Where Gymnasium has the same wrapper, only the name is given here.
"""

from gymnasium.wrappers import Autoreset as AutoReset
from gymnasium.wrappers import ClipAction
from gymnasium.wrappers import TimeLimit as LimitDuration

from agents.environments.wrappers.action_mask import ActionMask
from agents.environments.wrappers.episodes import (
    ActionRepeat,
    RandomStart,
    RebuildOnSeed,
    ResetOptions,
)
from agents.environments.wrappers.frames import FrameDelta, FrameHistory
from agents.environments.wrappers.ranges import ConvertTo32Bit, RangeNormalize

__all__ = [
    "ActionMask",
    "ActionRepeat",
    "AutoReset",
    "ClipAction",
    "ConvertTo32Bit",
    "FrameDelta",
    "FrameHistory",
    "LimitDuration",
    "RandomStart",
    "RangeNormalize",
    "RebuildOnSeed",
    "ResetOptions",
]
