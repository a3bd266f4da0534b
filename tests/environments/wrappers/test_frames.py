import re

import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from hypothesis import strategies
from hypothesis.extra import numpy as hypothesis_numpy

from agents.environments.mock_environment import MockEnvironment
from agents.environments.wrappers import FrameDelta, FrameHistory
from agents.errors import UnsupportedSpaceError
from tests.environments.playing import frames, play
from tests.toys import ScriptedEnv

SHAPES = hypothesis_numpy.array_shapes(min_dims=0, max_dims=3, max_side=3)


@hypothesis.given(
    SHAPES,
    strategies.sampled_from([np.uint8, np.int8, np.uint16, np.int32, np.int64, np.float32]),
)
@hypothesis.settings(deadline=None, max_examples=40)
def test_observes_differences(shape, dtype):
    played = [np.full(shape, value, dtype) for value in (100, 3, 5, 120)]
    env = FrameDelta(ScriptedEnv(played, spaces.Box(0, 120, shape, dtype)))
    for observ, expected in zip(play(env, [0] * 3), [0, -97, 2, 115], strict=True):
        np.testing.assert_array_equal(observ, np.full(shape, expected))
        assert env.observation_space.contains(observ)


def test_extreme_integers_do_not_overflow():
    for dtype, wide in ((np.uint8, np.int16), (np.int8, np.int16), (np.uint16, np.int32)):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        played = [np.array([value], dtype) for value in (high, low, high)]
        env = FrameDelta(ScriptedEnv(played, spaces.Box(low, high, (1,), dtype)))
        span = high - low
        assert env.observation_space == spaces.Box(-span, span, (1,), wide)
        np.testing.assert_array_equal(play(env, [0, 0]), [[0], [-span], [span]])


def test_infinite_and_huge_bounds():
    limit = np.finfo(np.float32).max
    space = spaces.Box(
        np.array([-np.inf, -limit, 1], np.float32), np.array([np.inf, limit, 2], np.float32)
    )
    env = FrameDelta(ScriptedEnv([], space))
    np.testing.assert_array_equal(env.observation_space.high, [np.inf, np.inf, 1])
    np.testing.assert_array_equal(env.observation_space.low, [-np.inf, -np.inf, -1])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_differences_beyond_int64_raise(dtype):
    limits = np.iinfo(dtype)
    space = spaces.Box(np.full(2, limits.min, dtype), np.full(2, limits.max, dtype), dtype=dtype)
    with pytest.raises(UnsupportedSpaceError, match="do not fit into int64"):
        FrameDelta(ScriptedEnv([], space))


@hypothesis.given(
    SHAPES,
    strategies.lists(strategies.integers(0, 6), max_size=4),
    strategies.booleans(),
    strategies.randoms(),
)
@hypothesis.settings(deadline=None, max_examples=50)
def test_observes_the_frames_at_the_indices(shape, ages, flatten, random):
    ages = [*ages, 0]
    random.shuffle(ages)
    played = frames(shape)
    env = FrameHistory(ScriptedEnv(played, spaces.Box(0, 9, shape)), ages, flatten)
    for time, observ in enumerate(play(env, [0] * 7)):
        expected = np.stack([played[max(0, time - age)] for age in ages])
        if flatten and shape:
            expected = expected.reshape(-1, *shape[1:])
        np.testing.assert_array_equal(observ, expected)
        assert env.observation_space.contains(observ)


def test_space_has_the_bounds_and_dtype_of_each_frame():
    space = spaces.Box(np.array([0, 5], np.uint8), np.array([9, 200], np.uint8), dtype=np.uint8)
    env = FrameHistory(ScriptedEnv([], space), [0, 1], flatten=True)
    expected = spaces.Box(
        np.array([0, 5, 0, 5], np.uint8), np.array([9, 200, 9, 200], np.uint8), dtype=np.uint8
    )
    assert env.observation_space == expected


def test_an_episode_does_not_observe_the_previous_one():
    env = FrameDelta(ScriptedEnv(frames(()), spaces.Box(0, 9, ()), terminated_at=2))
    np.testing.assert_array_equal(play(env, [0] * 3), [0, 1, 1, 0, 1])
    env = FrameHistory(
        ScriptedEnv(frames(()), spaces.Box(0, 9, ()), terminated_at=3), [0, 1], False
    )
    np.testing.assert_array_equal(
        play(env, [0] * 4), [[1, 1], [2, 1], [3, 2], [4, 3], [1, 1], [2, 1]]
    )


def test_observations_are_not_overwritten():
    env = FrameHistory(ScriptedEnv(frames((1,)), spaces.Box(0, 9, (1,))), [0], True)
    observ, _ = env.reset()
    env.step(0)
    np.testing.assert_array_equal(observ, [1])


@pytest.mark.parametrize("ages", [[], [1, 2], [0, -1], [0, 0.5]])
def test_invalid_indices_raise(ages):
    with pytest.raises(ValueError, match="FrameHistory: past_indices must"):
        FrameHistory(MockEnvironment((), (), 1, 1), ages, False)


@pytest.mark.parametrize("wrap", [FrameDelta, lambda env: FrameHistory(env, [0], False)])
def test_other_observations_than_a_box_and_steps_before_a_reset_raise(wrap):
    with pytest.raises(UnsupportedSpaceError, match=re.escape("observes a Box, got Discrete(4)")):
        wrap(ScriptedEnv([], spaces.Discrete(4)))
    with pytest.raises(ResetNeeded, match="call reset"):
        wrap(ScriptedEnv(frames(()), spaces.Box(0, 9, ()))).step(0)
