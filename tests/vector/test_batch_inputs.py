import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from agents.environments.batch_bounds import BatchBounds
from agents.errors import InvalidActionError
from agents.vector.batch_inputs import checked_actions, reset_mask, seed_list

DISCRETE, BOX = spaces.Discrete(8, start=-2), spaces.Box(-0.7, 0.7, (2,), np.float32)
SPACES = [
    DISCRETE,
    BOX,
    spaces.Box(-np.inf, np.inf, (), np.float64),
    spaces.Box(0, 255, (2, 3), np.uint8),
    spaces.MultiDiscrete([[3, 4]], start=[[-1, 2]]),
    spaces.MultiBinary(4),
]


def checked(actions, space, num_envs=3):
    return checked_actions(actions, space, BatchBounds(space, num_envs))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_elements_of_the_space_pass(space):
    batched = batch_space(space, 3)
    batched.seed(0)
    for _ in range(20):
        actions = batched.sample()
        for given in (actions, actions.tolist()):
            passed = checked(given, space)
            assert passed.shape == actions.shape
            np.testing.assert_array_equal(passed, actions)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_bounds_are_inclusive_and_finite(space):
    known = BatchBounds(space, 3)
    for bound in (known.low, known.high):
        assert bound.dtype == space.dtype and np.isfinite(bound).all()
        assert batch_space(space, 3).contains(checked(bound, space))


@pytest.mark.parametrize(
    ("actions", "space", "message"),
    [
        ([0, 0, 6], DISCRETE, "action 6 of environment 2 is not in Discrete"),
        ([0, -3, 9], DISCRETE, "action -3 of environment 1"),
        ([0, 0], DISCRETE, "3 environments needs as many actions, got 2"),
        (0, DISCRETE, r"Actions of type int: expected an array \[3\]"),
        ([0, [1, 2], 0], DISCRETE, r"action of environment 1 has shape \(2,\), expected \(\)"),
        (
            np.zeros((3, 1), int),
            DISCRETE,
            r"action of environment 0 has shape \(1,\), expected \(\)",
        ),
        (np.zeros(3), DISCRETE, "Actions of type float64 for Discrete"),
        (["a", "b", "c"], DISCRETE, "Actions of type"),
        (np.zeros((3, 2), complex), BOX, "Actions of type complex128"),
        ([[0, 0], [0, np.nan], [0, 0]], BOX, "of environment 1 is not in Box"),
        ([[0, 0], [0, 0], [-np.inf, 0]], BOX, "of environment 2"),
        ([[1e300, 0], [0, 0], [0, 0]], BOX, "of environment 0"),
        ([[0, 0], [0.71, 0], [0, 0]], BOX, "of environment 1"),
    ],
)
def test_invalid_actions_are_refused(actions, space, message):
    with pytest.raises(InvalidActionError, match=message):
        checked(actions, space)


def test_floats_are_rounded_before_they_are_compared():
    actions = np.full((3, 2), np.nextafter(0.7, 1))
    assert (actions > BOX.high).any() or (actions < -BOX.low).any()
    assert checked(actions, BOX).dtype == np.float32


@pytest.mark.parametrize(
    ("seed", "seeds"),
    [
        (None, [-1, -1, -1]),
        (5, [5, 6, 7]),
        (np.int64(0), [0, 1, 2]),
        ([7, None, 9], [7, -1, 9]),
        (np.array([3, 2, 1]), [3, 2, 1]),
    ],
)
def test_seeds(seed, seeds):
    assert seed_list(seed, 3) == seeds


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        ([1, 2], "batch of 3 environments needs 3 seeds, got 2"),
        (-1, r"negative, got \[-1, 0, 1\]"),
        ([1, -4, None], r"negative, got \[1, -4, None\]"),
    ],
)
def test_invalid_seeds_are_refused(seed, message):
    with pytest.raises(ValueError, match=message):
        seed_list(seed, 3)


@pytest.mark.parametrize(
    ("mask", "indices", "expected"),
    [
        (None, None, [True, True, True]),
        ([False, True, False], None, [False, True, False]),
        (None, [2, 0], [True, False, True]),
        (None, [-1], [False, False, True]),
        (None, [], [False, False, False]),
    ],
)
def test_reset_masks(mask, indices, expected):
    result = reset_mask(None if mask is None else np.array(mask), indices, 3)
    assert result.dtype == bool and result.tolist() == expected


@pytest.mark.parametrize(
    ("mask", "indices", "message"),
    [
        (None, [3], r"\[3\] must be in \[-3, 3\)"),
        (None, [0, -4], r"\[0, -4\] must be in \[-3, 3\)"),
        (np.ones(3, bool), [0], "not by both"),
        (np.ones(2, bool), None, r"bool \[3\], got bool \[2\]"),
        (np.ones(3), None, r"bool \[3\], got float64 \[3\]"),
    ],
)
def test_invalid_reset_masks_are_refused(mask, indices, message):
    with pytest.raises(ValueError, match=message):
        reset_mask(mask, indices, 3)
