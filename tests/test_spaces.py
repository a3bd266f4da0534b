import functools

import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies

from agents import spaces as tools
from agents.errors import UnsupportedSpaceError
from tests.space_strategies import STRUCTURES


class Cards(spaces.Discrete):
    """A user's space that is derived from a supported one."""


def equal(left, right):
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return np.array_equal(left, right) and np.shape(left) == np.shape(right)


@hypothesis.given(STRUCTURES, strategies.integers(0, 1000))
@hypothesis.settings(deadline=None)
def test_pack_inverts_flatten(space, seed):
    space.seed(seed)
    value = space.sample()
    leaves = tools.flatten(space, value)
    assert [np.shape(leaf) for leaf in leaves] == [leaf.shape for leaf in tools.leaf_spaces(space)]
    assert all(
        np.asarray(leaf) in of for leaf, of in zip(leaves, tools.leaf_spaces(space), strict=True)
    )
    assert equal(tools.pack(space, leaves), value)


@hypothesis.given(STRUCTURES)
@hypothesis.settings(deadline=None)
def test_dimensions_are_the_numbers_of_an_element(space):
    expected = sum(np.size(leaf) for leaf in tools.flatten(space, space.sample()))
    assert tools.num_dimensions(space) == expected


@hypothesis.given(STRUCTURES)
@hypothesis.settings(deadline=None)
def test_paths_lead_to_the_leaves(space):
    for path, leaf in zip(tools.leaf_paths(space), tools.leaf_spaces(space), strict=True):
        assert functools.reduce(lambda within, key: within[key], path, space) is leaf


@hypothesis.given(STRUCTURES)
@hypothesis.settings(deadline=None, max_examples=50)
def test_the_order_of_leaves_is_that_of_tensorflow(space):
    import tensorflow as tf

    leaves = [object() for _ in tools.leaf_spaces(space)]
    packed = tools.pack(space, leaves)
    assert [id(leaf) for leaf in tf.nest.flatten(packed)] == [id(leaf) for leaf in leaves]


@hypothesis.given(STRUCTURES, strategies.integers(1, 4))
@hypothesis.settings(deadline=None)
def test_elements_of_a_batch_are_elements_of_the_space(space, size):
    samples = [space.sample() for _ in range(size)]
    batch = [
        np.stack(leaves)
        for leaves in zip(*(tools.flatten(space, one) for one in samples), strict=True)
    ]
    for row, (sample, element) in enumerate(
        zip(samples, tools.elements(space, batch), strict=True)
    ):
        assert equal(element, sample)
        assert equal(tools.element(space, batch, row), sample)
        assert element in space
        for leaf, of, whole in zip(
            tools.flatten(space, element), tools.leaf_spaces(space), batch, strict=True
        ):
            assert isinstance(leaf, np.int64 if isinstance(of, spaces.Discrete) else np.ndarray)
            assert np.shares_memory(leaf, whole) == (not isinstance(of, spaces.Discrete))


@pytest.mark.parametrize(
    ("space", "low", "high"),
    [
        (spaces.Discrete(3), 0, 2),
        (Cards(5, start=-2), -2, 2),
        (spaces.MultiDiscrete([2, 3], start=[1, 0]), [1, 0], [2, 2]),
        (spaces.MultiBinary(2), 0, 1),
        (spaces.Box(-2, 3, (1,), np.int8), [-2], [3]),
        (spaces.Box(-np.inf, 1, (1,), np.float32), [np.finfo(np.float32).min], [1]),
        (spaces.Box(0, np.inf, (), np.float64), 0, np.finfo(np.float64).max),
    ],
)
def test_bounds_are_inclusive_and_finite(space, low, high):
    for bound, expected in zip(tools.bounds(space), (low, high), strict=True):
        np.testing.assert_array_equal(bound, expected)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(spaces.Discrete(2), None),
        spaces.Dict({0: spaces.Discrete(2), 1: spaces.Discrete(2)}),
        spaces.Dict({0: spaces.Discrete(2), "0": spaces.Discrete(2)}),
    ],
    ids=str,
)
def test_unsupported_spaces_are_named_at_any_depth(space):
    for nested in (space, spaces.Dict(a=spaces.Discrete(2), b=space), spaces.Tuple([space])):
        with pytest.raises(UnsupportedSpaceError) as caught:
            tools.leaf_spaces(nested)
        assert str(space) in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2,), np.float32),
        spaces.Box(-np.inf, 1, (2, 3), np.float64),
        spaces.Box(-1, 1, (), np.float16),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([[2, 3], [1, 4]], start=[[0, -1], [2, 0]]),
        spaces.MultiBinary([2, 2]),
        spaces.Dict(
            a=spaces.Discrete(2), b=spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary(3)])
        ),
    ],
    ids=str,
)
def test_action_spaces_with_a_policy(space):
    tools.check_action_space(space)


@pytest.mark.parametrize(
    "unsupported",
    [
        spaces.Box(0, 9, (2,), np.uint8),
        spaces.Box(0, 1, (2,), np.bool_),
        spaces.Box(-1, 1, (2, 0)),
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
    ],
    ids=str,
)
def test_action_spaces_without_a_policy_are_named_at_any_depth(unsupported):
    for space in (unsupported, spaces.Tuple([spaces.Discrete(2), spaces.Dict(a=unsupported)])):
        with pytest.raises(UnsupportedSpaceError) as caught:
            tools.check_action_space(space)
        assert str(unsupported) in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 3


def test_an_empty_action_space_is_refused():
    with pytest.raises(UnsupportedSpaceError, match=r"action space Dict\(\)"):
        tools.check_action_space(spaces.Dict())


def test_a_tuple_of_the_wrong_length_is_refused():
    space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])
    with pytest.raises(ValueError, match="zip"):
        tools.flatten(space, (1,))
