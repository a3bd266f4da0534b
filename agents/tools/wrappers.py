"""Wrappers that adjust one environment: its actions, observations, rewards and episodes.

All of them keep `terminated` and `truncated` apart and take part in `env.spec`. Frames are copied before they are
remembered: an environment may reuse its buffers. Where Gymnasium has the same wrapper, only the name is given here.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import Autoreset as AutoReset
from gymnasium.wrappers import ClipAction
from gymnasium.wrappers import TimeLimit as LimitDuration

from agents.tools.errors import UnsupportedSpaceError

__all__ = [
    "ActionRepeat",
    "AutoReset",
    "ClipAction",
    "ConvertTo32Bit",
    "FrameDelta",
    "FrameHistory",
    "LimitDuration",
    "RandomStart",
    "RangeNormalize",
]

Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
Reset = tuple[Any, dict[str, Any]]


class ActionRepeat(gymnasium.Wrapper, RecordConstructorArgs):
    """Repeats every action until `amount` steps are done or the episode has ended; rewards are summed."""

    def __init__(self, env: gymnasium.Env, amount: int):
        """Wraps the environment.

        Args:
          env: Environment to wrap.
          amount: Number of its steps per action, at least 1.

        Raises:
          ValueError: The amount is not a whole number of at least 1.
        """
        RecordConstructorArgs.__init__(self, amount=amount)
        gymnasium.Wrapper.__init__(self, env)
        self._amount = _whole_number("ActionRepeat: amount", amount, minimum=1)

    def step(self, action: Any) -> Step:
        """Returns the last step's observation, flags and info, with the sum of the rewards."""
        observ, reward, terminated, truncated, info = self.env.step(action)
        total = float(reward)
        for _ in range(self._amount - 1):
            if terminated or truncated:
                break
            observ, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
        return observ, total, terminated, truncated, info


class RandomStart(gymnasium.Wrapper, RecordConstructorArgs):
    """Takes a random number of random actions at the start of every episode.

    The random numbers are the wrapper's own: `reset(seed=...)` seeds them, so that equal seeds give equal episodes,
    other resets go on from there, and sampling from `env.action_space` elsewhere makes no difference. An episode that
    ends during the random actions is reset, and the remaining ones are taken in the next episode.
    """

    def __init__(self, env: gymnasium.Env, max_steps: int):
        """Wraps the environment.

        Args:
          env: Environment to wrap.
          max_steps: The number of random steps is drawn uniformly from 0 to this number, both included.

        Raises:
          ValueError: The number is not a whole number of at least 0.
        """
        RecordConstructorArgs.__init__(self, max_steps=max_steps)
        gymnasium.Wrapper.__init__(self, env)
        self._max_steps = _whole_number("RandomStart: max_steps", max_steps, minimum=0)
        self._sampler = copy.deepcopy(env.action_space)
        self._seed(None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Returns the observation and info after the random steps; `options` go to every reset that it takes."""
        observ, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._seed(seed)
        for _ in range(self._generator.integers(self._max_steps + 1)):
            observ, _, terminated, truncated, info = self.env.step(self._sampler.sample())
            if terminated or truncated:
                observ, info = self.env.reset(options=options)
        return observ, info

    def _seed(self, seed: int | None) -> None:
        # The environment itself uses the seed as it is; children of it give streams that differ from the environment's.
        steps, actions = np.random.SeedSequence(seed).spawn(2)
        self._generator = np.random.default_rng(steps)
        self._sampler.seed(int(actions.generate_state(1)[0]))


class FrameHistory(gymnasium.Wrapper, RecordConstructorArgs):
    """Adds past observations to the current one.

    Frames are in the order of `past_indices`. Before the start of the episode, its first frame counts as the past.
    """

    def __init__(self, env: gymnasium.Env, past_indices: Sequence[int], flatten: bool):
        """Wraps the environment.

        Args:
          env: Environment with a Box observation space of shape `[...]`.
          past_indices: How many steps ago each frame was seen; 0, the current frame, must be among them.
          flatten: Concatenate the frames along their first axis, `[N * first, ...]`, rather than stacking them,
            `[N, ...]`.

        Raises:
          ValueError: The indices are not whole numbers of at least 0, or 0 is missing.
          UnsupportedSpaceError: The observation space is not a Box.
        """
        RecordConstructorArgs.__init__(self, past_indices=past_indices, flatten=flatten)
        gymnasium.Wrapper.__init__(self, env)
        self._ages = np.array(
            [_whole_number("FrameHistory: past_indices", age, minimum=0) for age in past_indices], int
        )
        if 0 not in self._ages:
            raise ValueError(f"FrameHistory: past_indices must include 0, the current frame, got {past_indices!r}")
        self._flatten = flatten
        space = _box_observation_space("FrameHistory", env)
        low, high = (self._join(np.stack([bound] * len(self._ages))) for bound in (space.low, space.high))
        self.observation_space = spaces.Box(low, high, dtype=space.dtype.type)
        # A ring buffer that also holds the oldest frame asked for, hence the one.
        self._frames = np.zeros((self._ages.max() + 1, *space.shape), space.dtype)
        self._position: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Returns the first observation, repeated for all of the past."""
        observ, info = self.env.reset(seed=seed, options=options)
        self._position = 0
        self._frames[:] = observ
        return self._history(), info

    def step(self, action: Any) -> Step:
        """Returns the observations at the indices. Raises `ResetNeeded` before the first reset."""
        if self._position is None:
            raise ResetNeeded("FrameHistory: call reset() before step()")
        observ, reward, terminated, truncated, info = self.env.step(action)
        self._position = (self._position + 1) % len(self._frames)
        self._frames[self._position] = observ
        return self._history(), reward, terminated, truncated, info

    def _history(self) -> np.ndarray:
        return self._join(self._frames[(self._position - self._ages) % len(self._frames)])  # [N, ...]

    def _join(self, frames: np.ndarray) -> np.ndarray:
        # Frames of shape [] have no axis to be joined along; their stack is flat as it is.
        return np.concatenate(frames) if self._flatten and frames.ndim > 1 else frames


class FrameDelta(gymnasium.Wrapper, RecordConstructorArgs):
    """Replaces the observation by its difference from the one before; the first of an episode is zero.

    Bounds become `low - high` and `high - low`. Integers become signed ones that hold every difference: 8 bits become
    int16, 16 bits int32, all others int64.
    """

    def __init__(self, env: gymnasium.Env):
        """Wraps the environment.

        Args:
          env: Environment with a Box observation space.

        Raises:
          UnsupportedSpaceError: The observation space is not a Box, or its differences do not fit into int64.
        """
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        space = _box_observation_space("FrameDelta", env)
        self._dtype = _difference_dtype(space)
        with np.errstate(over="ignore"):  # A range beyond the largest float is an infinite range.
            low, high = space.low.astype(self._dtype), space.high.astype(self._dtype)
            self.observation_space = spaces.Box(
                np.asarray(low - high), np.asarray(high - low), space.shape, self._dtype.type
            )
        self._last: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Returns zeros: there is no frame before the first."""
        observ, info = self.env.reset(seed=seed, options=options)
        self._last = np.array(observ, self._dtype)
        return np.zeros_like(self._last), info

    def step(self, action: Any) -> Step:
        """Returns what changed since the last observation. Raises `ResetNeeded` before the first reset."""
        if self._last is None:
            raise ResetNeeded("FrameDelta: call reset() before step()")
        observ, reward, terminated, truncated, info = self.env.step(action)
        frame = np.array(observ, self._dtype)
        delta = np.asarray(frame - self._last)
        self._last = frame
        return delta, reward, terminated, truncated, info


class RangeNormalize(gymnasium.Wrapper, RecordConstructorArgs):
    """Maps the bounds of observations and actions to [-1, 1].

    This is not composed of Gymnasium's RescaleAction and RescaleObservation: those compute in the space's own type, so
    that rounding carries every third float32 range's extreme action out of the environment's bounds, unsigned integers
    can't be rescaled, and equal bounds give NaN.

    Observations of integers become float32; a component with equal bounds becomes -1. Values outside of the bounds are
    not clipped, in either direction; put ClipAction around this wrapper for that.
    """

    def __init__(self, env: gymnasium.Env, observ: bool | None = None, action: bool | None = None):
        """Wraps the environment.

        Args:
          env: Environment to wrap.
          observ: Whether to normalize observations: None where their space is a Box with finite bounds, True always.
          action: The same for actions, whose space must be a Box of floats.

        Raises:
          ValueError: An argument is True and the bounds are infinite, the space is not a Box, or actions are integers;
            or an argument is none of None, True and False.
        """
        RecordConstructorArgs.__init__(self, observ=observ, action=action)
        gymnasium.Wrapper.__init__(self, env)
        self._observ_range = self._action_range = None
        if _should_normalize("observ", observ, env.observation_space):
            low, span = self._observ_range = _range(env.observation_space)
            # Equal bounds: the difference is zero, whatever it is divided by.
            self._observ_range = low, np.where(span == 0, 1, span)
            self.observation_space = _unit_box(env.observation_space)
        if _should_normalize("action", action, env.action_space):
            low, span = self._action_range = _range(env.action_space)
            # The nearest span may lead beyond the upper bound by rounding; the next smaller one can't.
            beyond = low + span > np.asarray(env.action_space.high, np.float64)  # type: ignore[attr-defined]
            self._action_range = low, np.where(beyond, np.nextafter(span, 0), span)
            self.action_space = _unit_box(env.action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Returns the normalized observation."""
        observ, info = self.env.reset(seed=seed, options=options)
        return self._normalize(observ), info

    def step(self, action: Any) -> Step:
        """Takes a normalized action, returns the normalized observation."""
        if self._action_range is not None:
            low, span = self._action_range
            scaled = low + span * ((np.asarray(action, np.float64) + 1) / 2)
            action = np.asarray(scaled, self.action_space.dtype)
        observ, reward, terminated, truncated, info = self.env.step(action)
        return self._normalize(observ), reward, terminated, truncated, info

    def _normalize(self, observ: Any) -> Any:
        if self._observ_range is None:
            return observ
        low, span = self._observ_range
        return np.asarray((observ - low) / span * 2 - 1, self.observation_space.dtype)


class ConvertTo32Bit(gymnasium.Wrapper, RecordConstructorArgs):
    """Converts 64-bit observations and the reward to 32 bits, and refuses what does not fit.

    float64 becomes float32, int64 int32, uint64 uint32, also inside of Dict and Tuple spaces; other types stay. Bounds
    beyond 32 bits become infinite, for integers the type's own. The reward is a `numpy.float32`.
    """

    def __init__(self, env: gymnasium.Env):
        """Wraps the environment.

        Args:
          env: Environment whose observation space is a Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple
            of such.

        Raises:
          UnsupportedSpaceError: The observation space is of another kind, or has more values than 32 bits can count.
        """
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self.observation_space = _space_32_bit(env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Returns the converted observation.

        Raises:
          ValueError: A float is not finite in 32 bits, or an integer does not fit; the message names the part.
        """
        observ, info = self.env.reset(seed=seed, options=options)
        return _to_32_bit(observ, "observation"), info

    def step(self, action: Any) -> Step:
        """Returns the converted observation and reward.

        Raises:
          ValueError: A float is not finite in 32 bits, or an integer does not fit; the message names the part.
        """
        observ, reward, terminated, truncated, info = self.env.step(action)
        if not abs(float(reward)) <= _LARGEST_FLOAT:  # True for NaN as well.
            raise ValueError(f"ConvertTo32Bit: the reward must be finite in 32 bits, got {reward}")
        return _to_32_bit(observ, "observation"), np.float32(reward), terminated, truncated, info


_NARROW: dict[np.dtype, np.dtype] = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
}
_LARGEST_FLOAT = float(np.finfo(np.float32).max)


def _to_32_bit(value: Any, name: str) -> Any:
    """Converts an observation, `name` being its place in messages."""
    if isinstance(value, dict):
        return {key: _to_32_bit(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_to_32_bit(item, f"{name}[{index}]") for index, item in enumerate(value))
    array = np.asarray(value)
    narrow, dtype = array, _NARROW.get(array.dtype)
    if dtype is not None:
        with np.errstate(over="ignore"):  # What numpy would warn of is raised below.
            narrow = array.astype(dtype)
    if narrow.dtype.kind == "f":
        valid, expected = np.isfinite(narrow), "finite"
    elif narrow is not array:
        valid, expected = narrow == array, f"within {narrow.dtype}"
    else:
        return value
    if not valid.all():
        raise ValueError(f"ConvertTo32Bit: {name} must be {expected} in 32 bits, got {array[~valid].flat[0]}")
    return narrow if isinstance(value, np.ndarray) else narrow[()]


def _space_32_bit(space: spaces.Space) -> spaces.Space:
    """The space of the observations that `_to_32_bit` gives."""
    if isinstance(space, spaces.Dict):
        # Pairs, because Gymnasium sorts the keys of a dictionary.
        return spaces.Dict([(key, _space_32_bit(item)) for key, item in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_space_32_bit(item) for item in space.spaces])
    if isinstance(space, spaces.MultiBinary):
        return space
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        raise UnsupportedSpaceError(f"ConvertTo32Bit can't convert observations of the space {space}")
    dtype = _NARROW.get(np.dtype(space.dtype))
    if dtype is None:
        return space
    return _box_32_bit(space, dtype) if isinstance(space, spaces.Box) else _categories_32_bit(space, dtype)


def _box_32_bit(space: spaces.Box, dtype: np.dtype) -> spaces.Box:
    low, high = space.low, space.high
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        low, high = (np.asarray(np.clip(bound, limits.min, limits.max)) for bound in (low, high))
    with np.errstate(over="ignore"):  # A float bound beyond 32 bits becomes an infinite one.
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)


def _categories_32_bit(
    space: spaces.Discrete | spaces.MultiDiscrete, dtype: np.dtype
) -> spaces.Discrete | spaces.MultiDiscrete:
    counts, start = (space.n if isinstance(space, spaces.Discrete) else space.nvec), space.start
    limits = np.iinfo(dtype)
    if np.max(counts) > limits.max or np.min(start) < limits.min or np.max(start + (counts - 1)) > limits.max:
        raise UnsupportedSpaceError(f"ConvertTo32Bit: {space} has values that do not fit into {dtype}")
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(counts.astype(dtype), dtype.type, start=start.astype(dtype))
    # The Discrete of Gymnasium 1.1 takes no dtype.
    narrow = copy.deepcopy(space)
    narrow.dtype, narrow.n, narrow.start = dtype, dtype.type(counts), dtype.type(start)
    return narrow


def _difference_dtype(space: spaces.Box) -> np.dtype:
    """The type that holds the difference of any two values of the space."""
    if space.dtype.kind == "f":
        return space.dtype
    bits = 8 * space.dtype.itemsize
    if bits < 64:
        return np.dtype(f"int{2 * bits}")
    # Python's integers, as numpy's would wrap around right here.
    values = [int(value) for bound in (space.low, space.high) for value in bound.flat]
    spans = [int(high) - int(low) for low, high in zip(space.low.flat, space.high.flat, strict=True)]
    limit = np.iinfo(np.int64).max
    if max(spans, default=0) > limit or max(values, default=0) > limit:
        raise UnsupportedSpaceError(f"FrameDelta: differences of observations of {space} do not fit into int64")
    return np.dtype(np.int64)


def _should_normalize(name: str, wanted: bool | None, space: spaces.Space) -> bool:
    """Whether RangeNormalize's argument `name` of value `wanted` applies to the space."""
    if wanted is not None and not isinstance(wanted, bool):
        raise ValueError(f"RangeNormalize: {name} must be None, True or False, got {wanted!r}")
    if wanted is False:
        return False
    obstacle = None
    if not isinstance(space, spaces.Box):
        obstacle = "not a Box"
    elif name == "action" and space.dtype.kind != "f":
        obstacle = "not of floats"
    elif not (space.is_bounded() and np.isfinite(_range(space)[1]).all()):
        obstacle = "not of finite range"
    if wanted and obstacle:
        raise ValueError(f"RangeNormalize: {name}=True needs a Box with finite bounds; {space} is {obstacle}")
    return obstacle is None


def _range(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """The lower bound of a Box, and how far above it the upper one is, both float64."""
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return low, high - low


def _unit_box(space: Any) -> spaces.Box:
    return spaces.Box(-1, 1, space.shape, space.dtype.type if space.dtype.kind == "f" else np.float32)


def _box_observation_space(wrapper: str, env: gymnasium.Env) -> spaces.Box:
    if not isinstance(env.observation_space, spaces.Box):
        raise UnsupportedSpaceError(f"{wrapper} needs an environment that observes a Box, got {env.observation_space}")
    return env.observation_space


def _whole_number(name: str, value: Any, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return int(value)
