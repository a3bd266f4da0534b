"""Wrappers that adjust one environment: its actions, observations, rewards and episodes.

All of them keep `terminated` and `truncated` apart. All but `RebuildOnSeed` take part in
`env.spec`. Where Gymnasium has the same wrapper, only the name is given here.
"""

from gymnasium.wrappers import Autoreset as AutoReset
from gymnasium.wrappers import ClipAction
from gymnasium.wrappers import TimeLimit as LimitDuration

from agents.environments.wrappers.action_mask import ActionMask
from agents.environments.wrappers.action_repeat import ActionRepeat
from agents.environments.wrappers.convert_to_32_bit import ConvertTo32Bit
from agents.environments.wrappers.frame_delta import FrameDelta
from agents.environments.wrappers.frame_history import FrameHistory
from agents.environments.wrappers.random_start import RandomStart
from agents.environments.wrappers.range_normalize import RangeNormalize
from agents.environments.wrappers.rebuild_on_seed import RebuildOnSeed
from agents.environments.wrappers.reset_options import ResetOptions

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
