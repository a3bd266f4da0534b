import re

import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import strategies
from hypothesis.extra import numpy as hypothesis_numpy

from agents.environments.mock_environment import MockEnvironment
from agents.environments.wrappers import ConvertTo32Bit, RangeNormalize
from agents.errors import UnsupportedSpaceError
from tests.environments.playing import frames, play
from tests.toys import ScriptedEnv

SHAPES = hypothesis_numpy.array_shapes(min_dims=0, max_dims=3, max_side=3)


@strategies.composite
def ranges(draw, dtype):
    """Lower and upper bounds [...], equal ones included."""
    shape = draw(SHAPES)
    elements = strategies.floats(-1000, 1000, width=np.dtype(dtype).itemsize * 8)
    bounds = [draw(hypothesis_numpy.arrays(dtype, shape, elements=elements)) for _ in range(2)]
    return np.asarray(np.minimum(*bounds)), np.asarray(np.maximum(*bounds))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@hypothesis.given(data=strategies.data())
@hypothesis.settings(deadline=None, max_examples=100)
def test_bounds_become_one_and_nothing_exceeds_them(dtype, data):
    low, high = data.draw(ranges(dtype))
    space = spaces.Box(low, high, dtype=dtype)
    space.seed(0)
    inner = ScriptedEnv([low, high, space.sample()], space, space)
    env = RangeNormalize(inner)
    assert env.observation_space == env.action_space == spaces.Box(-1, 1, low.shape, dtype)
    actions = [
        -np.ones_like(low),
        np.ones_like(low),
        np.zeros_like(low),
        env.action_space.sample(),
    ]
    first, second, *others = play(env, actions)
    np.testing.assert_array_equal(first, -1)
    np.testing.assert_array_equal(second, np.where(low == high, -1, 1))
    assert all(env.observation_space.contains(observ) for observ in others)
    assert all(space.contains(action) for action in inner.actions)
    np.testing.assert_array_equal(inner.actions[0], low)
    np.testing.assert_allclose(inner.actions[1], high, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        inner.actions[2], (low.astype(float) + high) / 2, rtol=1e-6, atol=1e-6
    )


def test_images_become_floats():
    played = [np.array([value], np.uint8) for value in (0, 255, 51)]
    env = RangeNormalize(ScriptedEnv(played, spaces.Box(0, 255, (1,), np.uint8)), observ=True)
    assert env.observation_space == spaces.Box(-1, 1, (1,), np.float32)
    np.testing.assert_allclose(play(env, [0, 0]), [[-1], [1], [-0.6]], rtol=1e-6)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([0, 0], np.float32), np.array([1, np.inf], np.float32)),
        spaces.Box(-np.inf, np.inf, (2,), np.int64),
        spaces.Box(-1.7e308, 1.7e308, (2,), np.float64),
        spaces.Discrete(3),
    ],
)
def test_without_a_finite_range(space):
    inner = ScriptedEnv(frames((2,), space.dtype), space, space)
    env = RangeNormalize(inner)
    assert env.observation_space == env.action_space == space
    assert env.reset()[0] is inner.buffer
    action = np.full(2, 0.5)
    env.step(action)
    assert inner.actions[0] is action
    for name in ("observ", "action"):
        with pytest.raises(ValueError, match=f"{name}=True needs a Box with finite bounds"):
            RangeNormalize(inner, **{name: True})


def test_disabled():
    inner = MockEnvironment((2,), (3,), 1, 1)
    env = RangeNormalize(inner, observ=False, action=False)
    assert (env.observation_space, env.action_space) == (
        inner.observation_space,
        inner.action_space,
    )
    only_action = RangeNormalize(inner, observ=False)
    assert only_action.observation_space == inner.observation_space
    assert only_action.action_space == spaces.Box(-1, 1, (3,))
    with pytest.raises(ValueError, match="observ must be None, True or False, got 1"):
        RangeNormalize(inner, observ=1)


def test_integer_actions_are_not_normalized():
    inner = ScriptedEnv([], spaces.Discrete(2), spaces.Box(0, 9, (1,), np.int32))
    assert RangeNormalize(inner).action_space == inner.action_space
    with pytest.raises(ValueError, match="not of floats"):
        RangeNormalize(inner, action=True)


LIMITS = np.iinfo(np.int32)
# Spaces, in an order that Gymnasium would sort, and their spaces in 32 bits.
CONVERTED = {
    "position": (spaces.Box(-2, 2, (2,), np.float64), spaces.Box(-2, 2, (2,), np.float32)),
    "image": (spaces.Box(0, 255, (2,), np.uint8),) * 2,
    "far": (spaces.Box(-1e300, 1e300, (1,), np.float64), spaces.Box(-np.inf, np.inf, (1,))),
    "integers": (
        spaces.Box(-np.inf, np.inf, (1,), np.int64),
        spaces.Box(LIMITS.min, LIMITS.max, (1,), np.int32),
    ),
    "unsigned": (spaces.Box(0, 9, (2,), np.uint64), spaces.Box(0, 9, (2,), np.uint32)),
    "choices": (
        spaces.MultiDiscrete([3, 4], start=[-1, 2]),
        spaces.MultiDiscrete([3, 4], np.int32, start=[-1, 2]),
    ),
    "flags": (spaces.MultiBinary(2),) * 2,
}


def test_nested_observations_become_those_of_32_bits():
    wide = [(name, leaf) for name, (leaf, _) in CONVERTED.items()]
    space = spaces.Dict([*wide, ("a", spaces.Tuple([spaces.Discrete(3, start=-1)]))])
    space.seed(0)
    observ = {**space.sample(), "far": np.array([0.5])}
    env = ConvertTo32Bit(ScriptedEnv([observ], space))
    converted, _ = env.reset()
    assert env.observation_space.contains(converted)
    assert list(env.observation_space.spaces) == [*CONVERTED, "a"] == list(converted)
    for name, (_, narrow) in CONVERTED.items():
        assert env.observation_space[name] == narrow
        assert converted[name].dtype == env.observation_space.sample()[name].dtype == narrow.dtype
        np.testing.assert_allclose(converted[name], observ[name], rtol=1e-6)
    [leaf], [value] = env.observation_space["a"], converted["a"]
    assert leaf.dtype == value.dtype == np.int32 and value == observ["a"][0]
    assert data_equivalence(env.step(0)[0], converted)


def test_the_reward_is_a_finite_32_bit_float():
    rewards = [0.1, 2, np.float64(3), 1e300, np.nan, -np.inf]
    env = ConvertTo32Bit(ScriptedEnv(frames(()), spaces.Box(0, 9, ()), rewards=rewards))
    env.reset()
    for expected in rewards[:3]:
        reward = env.step(0)[1]
        assert type(reward) is np.float32
        assert reward == np.float32(expected)
    for reward in rewards[3:]:
        message = re.escape(f"reward must be finite in 32 bits, got {reward}")
        with pytest.raises(ValueError, match=message):
            env.step(0)


@pytest.mark.parametrize(
    "value, found",
    [
        (np.array([0, 1e300]), "1e+300"),
        (np.array([np.nan, 0], np.float32), "nan"),
        (np.array([0, 2**31]), "2147483648"),
        (np.array([-(2**31) - 1, 0]), "-2147483649"),
        (np.array([2**32, 0], np.uint64), "4294967296"),
    ],
)
def test_observations_that_do_not_fit_raise_and_the_leaf_is_named(value, found):
    box = spaces.Box(0, 1, value.shape, value.dtype.type)
    space = spaces.Dict({"fine": spaces.Discrete(2), "parts": spaces.Tuple([box])})
    env = ConvertTo32Bit(ScriptedEnv([{"fine": 0, "parts": (value,)}], space))
    pattern = rf"observation\['parts'\]\[0\] must be .* in 32 bits, got {re.escape(found)}"
    with pytest.raises(ValueError, match=pattern):
        env.reset()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(3),
        spaces.Sequence(spaces.Box(0, 1, (), np.float64)),
        spaces.Discrete(2**31),
        spaces.Discrete(2, start=2**31 - 1),
        spaces.MultiDiscrete([2, 3], start=[0, -(2**31) - 1]),
    ],
)
def test_unsupported_spaces_raise(space):
    with pytest.raises(UnsupportedSpaceError, match="ConvertTo32Bit"):
        ConvertTo32Bit(ScriptedEnv([], space))
