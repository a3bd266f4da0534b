import json

import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies

from agents.deployment.space_json import space_from_json, space_to_json
from agents.errors import UnsupportedSpaceError
from tests.space_strategies import LEAVES

SPACES = strategies.recursive(
    LEAVES,
    lambda children: strategies.one_of(
        strategies.dictionaries(strategies.text(max_size=3), children, max_size=3).map(spaces.Dict),
        strategies.lists(children, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=5,
)


@hypothesis.given(SPACES)
@hypothesis.settings(deadline=None)
def test_spaces_come_back_equal(space):
    text = json.dumps(space_to_json(space), allow_nan=False)
    restored = space_from_json(json.loads(text))
    assert restored == space and restored.dtype == space.dtype


def test_bounds_keep_every_bit_and_missing_ones_are_null():
    for dtype in (np.float16, np.float32, np.float64):
        low = np.array([-np.inf, 0.1, np.finfo(dtype).min], dtype)
        space = spaces.Box(low, np.array([1 / 3, np.inf, 1], dtype), dtype=dtype)
        data = json.loads(json.dumps(space_to_json(space)))
        assert data["low"][0] is None and data["high"][1] is None
        assert space_from_json(data) == space
    space = spaces.Box(np.array([-(2**63)]), np.array([2**63 - 1]), dtype=np.int64)
    assert space_from_json(json.loads(json.dumps(space_to_json(space)))) == space
    data = space_to_json(spaces.Box(0, 255, (84, 84, 4), np.uint8))
    assert (data["low"], data["high"], data["shape"]) == (0, 255, [84, 84, 4])


def test_spaces_that_are_not_made_of_arrays_are_named():
    with pytest.raises(UnsupportedSpaceError, match="Text"):
        space_to_json(spaces.Dict(text=spaces.Text(3)))


BOX_OF_A_GIGABYTE = {"type": "Box", "shape": [2**28], "dtype": "float32", "low": 0, "high": 1}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"type": "Text"},
        {"type": "Box", "shape": [2], "dtype": "float32", "low": [0, 0, 0], "high": 1},
        {"type": "Box", "shape": [10**9, 10**9], "dtype": "float32", "low": 0, "high": 1},
        {"type": "Box", "shape": "x", "dtype": "float32", "low": 0, "high": 1},
        {"type": "Box", "shape": [2], "dtype": "no type", "low": 0, "high": 1},
        {"type": "Box", "shape": [2], "dtype": "float32", "low": "x", "high": 1},
        {"type": "Box", "shape": [2, -1], "dtype": "float32", "low": 0, "high": 1},
        {"type": "Box", "shape": [2**28], "dtype": "uint8", "low": 0, "high": 1},
        {"type": "Box", "shape": [1], "dtype": "U100000", "low": 0, "high": 1},
        {"type": "Box", "shape": [1], "dtype": None, "low": 0, "high": 1},
        {"type": "Tuple", "spaces": [BOX_OF_A_GIGABYTE] * 50},
        {"type": "Dict", "spaces": {"a": BOX_OF_A_GIGABYTE}},
        {"type": "MultiBinary", "shape": [2**40]},
        {"type": "Discrete", "n": 10**30, "start": 0, "dtype": "int64"},
        {"type": "Discrete", "n": -1, "start": 0, "dtype": "int64"},
        {"type": "Discrete", "n": 2},
        {"type": "MultiDiscrete", "nvec": [[1], [2, 3]], "start": 0, "dtype": "int64"},
        {"type": "MultiBinary", "shape": 3},
        {"type": "Dict", "spaces": [1]},
        {"type": "Tuple", "spaces": 3},
    ],
)
def test_other_data_raise_value_error(data):
    with pytest.raises(ValueError):
        space_from_json(data)
