import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies

from agents.environments.batch_bounds import BatchBounds
from agents.spaces import bounds
from tests.space_strategies import LEAVES


@hypothesis.given(LEAVES, strategies.integers(1, 6), strategies.data())
@hypothesis.settings(deadline=None, max_examples=300)
def test_first_outside_agrees_with_the_space(space, size, data):
    dtype = np.float64 if isinstance(space, spaces.Box) and space.dtype.kind == "f" else np.int64
    batch = np.stack([space.sample() for _ in range(size)]).astype(dtype)
    odd = [-1000, -1, 0, 1, 4, 1000] + ([np.nan, np.inf, 1e300] if dtype == np.float64 else [])
    for _ in range(data.draw(strategies.integers(0, 3))):
        flat = batch.reshape(-1)
        flat[data.draw(strategies.integers(0, flat.size - 1))] = data.draw(
            strategies.sampled_from(odd)
        )
    low, high = (np.broadcast_to(bound, space.shape) for bound in bounds(space))
    outside = [
        row
        for row, one in enumerate(batch)
        if not all(a <= x <= b for a, x, b in zip(low.flat, one.flat, high.flat, strict=True))
    ]
    known = BatchBounds(space, size)
    assert known.first_outside(batch) == (outside[0] if outside else None)
    assert known.contain(batch) == (not outside)
    for row, one in enumerate(batch):
        assert known.outside(one, row).any() == (row in outside)
    if dtype == np.int64 and not isinstance(space, spaces.Box):
        mine = [row for row, one in enumerate(batch.astype(space.dtype)) if one not in space]
        assert known.first_outside(batch) == (mine[0] if mine else None)


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (spaces.Box(-1, 1, (1,), np.float32), [-1.000009, 1.000009], [-1.00002, 1.00002]),
        (spaces.Box(-1000, 1000, (1,), np.float32), [-1000.009, 1000.009], [1000.02, np.nan]),
        (spaces.Box(-np.inf, np.inf, (1,), np.float32), [3e38, -3e38, 1e30], [np.inf, np.nan]),
        (spaces.Box(0, np.inf, (1,), np.float32), [0, 3.4e38], [-0.1, np.inf, -np.inf]),
        (spaces.Box(0, 1, (1,), np.bool_), [False, True], []),
        (spaces.Discrete(3, start=1), [1, 3], [0, 4]),
    ],
    ids=str,
)
def test_a_tolerance_widens_bounds_of_floats(space, inside, outside):
    known = BatchBounds(space, 1, tolerance=1e-5)
    for number in inside:
        assert known.contain(np.full((1, *space.shape), number, space.dtype)), number
    for number in outside:
        assert not known.contain(np.full((1, *space.shape), number, space.dtype)), number
    if space.dtype.kind == "f":
        known.widen()
        for number in inside + outside:
            batch = np.full((1, *space.shape), number, space.dtype)
            assert known.contain(batch) == np.isfinite(number)
            assert known.outside(batch[0], 0).all() != np.isfinite(number)
