"""Frames of one environment over time: differences, and past frames."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Reset, Step, box_observation_space, whole_number
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


class FrameHistory(gymnasium.Wrapper, RecordConstructorArgs):
    """Observes L frames, current and past, in the order of `past_indices`.

    Steps before the start of an episode count as its first frame. Frames are copied, which
    Gymnasium's FrameStackObservation does not: an environment may reuse its buffers.
    """

    def __init__(self, env: Env, past_indices: Sequence[int], flatten: bool):
        """Initializes the wrapper.

        Args:
          env: Environment with a Box observation space of shape [...].
          past_indices: Age of each of the L frames in steps; must include 0, the current frame.
          flatten: Whether to concatenate the frames along their first axis, [L * first, ...],
            instead of stacking them, [L, ...].

        Raises:
          ValueError: The indices are not whole numbers of at least 0, or 0 is missing.
          UnsupportedSpaceError: The observation space is not a Box.
        """
        RecordConstructorArgs.__init__(self, past_indices=past_indices, flatten=flatten)
        gymnasium.Wrapper.__init__(self, env)
        self._ages = np.array(  # [L]
            [whole_number("FrameHistory: past_indices", age, minimum=0) for age in past_indices],
            int,
        )
        if 0 not in self._ages:
            raise ValueError(
                f"FrameHistory: past_indices must include 0, the current frame, got {past_indices!r}"
            )
        self._flatten = flatten
        space = box_observation_space("FrameHistory", env)
        low, high = (  # [L, ...] or [L * first, ...]
            self._join(np.stack([bound] * len(self._ages))) for bound in (space.low, space.high)
        )
        self.observation_space = spaces.Box(low, high, dtype=space.dtype.type)
        # A ring buffer [max age + 1, ...]: it holds the current frame and the oldest one needed.
        self._frames = np.zeros((self._ages.max() + 1, *space.shape), space.dtype)
        self._position: int | None = None

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Returns the first observation, repeated L times."""
        observ, info = self.env.reset(seed=seed, options=options)
        self._position = 0
        self._frames[:] = observ
        return self._history(), info

    def step(self, action: NestedArray) -> Step:
        """Returns the observations at the indices, [L, ...] or [L * first, ...].

        Raises:
          ResetNeeded: The environment was not reset yet.
        """
        if self._position is None:
            raise ResetNeeded("FrameHistory: call reset() before step()")
        observ, reward, terminated, truncated, info = self.env.step(action)
        self._position = (self._position + 1) % len(self._frames)
        self._frames[self._position] = observ
        return self._history(), reward, terminated, truncated, info

    def _history(self) -> np.ndarray:
        rows = (self._position - self._ages) % len(self._frames)  # [L]
        return self._join(self._frames[rows])  # [L, ...] or [L * first, ...]

    def _join(self, frames: np.ndarray) -> np.ndarray:
        # Scalar frames have no axis to concatenate along; their stack [L] is flat already.
        return np.concatenate(frames) if self._flatten and frames.ndim > 1 else frames
