"""Frame differences as observations."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset, Step, box_observation_space
from agents.errors import UnsupportedSpaceError
from agents.types import Env, NestedArray, Options


class FrameDelta(gymnasium.Wrapper, RecordConstructorArgs):
    """Observes the difference from the previous observation; zeros at the start of an episode.

    Bounds become `low - high` and `high - low`. Integers become signed integers that hold every
    difference: 8 bits become int16, 16 bits int32, all others int64. Frames are copied: an
    environment may reuse its buffers.
    """

    def __init__(self, env: Env):
        """Initializes the wrapper.

        Args:
          env: Environment with a Box observation space of shape [...].

        Raises:
          UnsupportedSpaceError: The observation space is not a Box, or its differences do not fit
            into int64.
        """
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        space = box_observation_space("FrameDelta", env)
        self._dtype = _difference_dtype(space)
        with np.errstate(over="ignore"):  # A range beyond the largest float is an infinite range.
            low, high = space.low.astype(self._dtype), space.high.astype(self._dtype)  # [...]
            self.observation_space = spaces.Box(
                np.asarray(low - high), np.asarray(high - low), space.shape, self._dtype.type
            )
        self._last: np.ndarray | None = None  # [...]

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Returns zeros [...]: the first frame has no predecessor."""
        observ, info = self.env.reset(seed=seed, options=options)
        self._last = np.array(observ, self._dtype)
        return np.zeros_like(self._last), info

    def step(self, action: NestedArray) -> Step:
        """Returns the difference from the previous observation [...].

        Raises:
          ResetNeeded: The environment was not reset yet.
        """
        if self._last is None:
            raise ResetNeeded("FrameDelta: call reset() before step()")
        observ, reward, terminated, truncated, info = self.env.step(action)
        frame = np.array(observ, self._dtype)  # [...]
        delta = np.asarray(frame - self._last)
        self._last = frame
        return delta, reward, terminated, truncated, info


def _difference_dtype(space: spaces.Box) -> np.dtype:
    """Returns a dtype that holds the difference of any two values of the space."""
    if space.dtype.kind == "f":
        return space.dtype
    bits = 8 * space.dtype.itemsize
    if bits < 64:
        return np.dtype(f"int{2 * bits}")
    # Python's integers, because NumPy's would overflow here.
    values = [int(value) for bound in (space.low, space.high) for value in bound.flat]
    spans = [
        int(high) - int(low) for low, high in zip(space.low.flat, space.high.flat, strict=True)
    ]
    limit = np.iinfo(np.int64).max
    if max(spans, default=0) > limit or max(values, default=0) > limit:
        raise UnsupportedSpaceError(
            f"FrameDelta: differences of observations of {space} do not fit into int64"
        )
    return np.dtype(np.int64)
