import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies
from hypothesis.extra import numpy as hypothesis_numpy

from agents.environments.mock_environment import MockEnvironment
from agents.environments.wrappers.range_normalize import RangeNormalize

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
def test_bounds_become_one_and_nothing_exceeds_them(dtype, data, script, play):
    low, high = data.draw(ranges(dtype))
    space = spaces.Box(low, high, dtype=dtype)
    space.seed(0)
    inner = script([low, high, space.sample()], space, space)
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


def test_images_become_floats(script, play):
    played = [np.array([value], np.uint8) for value in (0, 255, 51)]
    env = RangeNormalize(script(played, spaces.Box(0, 255, (1,), np.uint8)), observ=True)
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
def test_without_a_finite_range(space, script, frames):
    inner = script(frames((2,), space.dtype), space, space)
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


def test_integer_actions_are_not_normalized(script):
    inner = script([], spaces.Discrete(2), spaces.Box(0, 9, (1,), np.int32))
    assert RangeNormalize(inner).action_space == inner.action_space
    with pytest.raises(ValueError, match="not of floats"):
        RangeNormalize(inner, action=True)


def test_other_arguments_raise():
    with pytest.raises(ValueError, match="observ must be None, True or False, got 1"):
        RangeNormalize(MockEnvironment((), (), 1, 1), observ=1)
