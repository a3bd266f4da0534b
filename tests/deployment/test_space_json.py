import json
import random

import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies

from agents.deployment.space_json import (
    load_spaces,
    save_spaces,
    space_from_json,
    space_to_json,
    spaces_to_json,
)
from agents.errors import UnsupportedSpaceError, UsageError
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


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bounds_keep_every_bit_and_missing_ones_are_null(dtype):
    low = np.array([-np.inf, 0.1, np.finfo(dtype).min], dtype)
    space = spaces.Box(low, np.array([1 / 3, np.inf, 1], dtype), dtype=dtype)
    data = json.loads(json.dumps(space_to_json(space)))
    assert data["low"][0] is None and data["high"][1] is None
    assert space_from_json(data) == space


def test_equal_bounds_are_one_number():
    data = space_to_json(spaces.Box(0, 255, (84, 84, 4), np.uint8))
    assert (data["low"], data["high"], data["shape"]) == (0, 255, [84, 84, 4])


def test_integers_beyond_those_of_floats_stay_exact():
    space = spaces.Box(np.array([-(2**63)]), np.array([2**63 - 1]), dtype=np.int64)
    assert space_from_json(json.loads(json.dumps(space_to_json(space)))) == space


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


def test_files_hold_both_spaces_and_are_written_once(tmp_path):
    path, both = tmp_path / "spaces.json", (spaces.Box(-1, 1, (2,)), spaces.Discrete(3))
    save_spaces(path, *both)
    assert load_spaces(path) == both
    before = path.stat()
    save_spaces(path, *both)
    assert path.stat().st_ino == before.st_ino
    save_spaces(path, both[0], spaces.Discrete(4))
    assert load_spaces(path)[1] == spaces.Discrete(4)


def test_a_file_that_differs_from_the_checkpoint_is_refused(tmp_path):
    path, both = tmp_path / "spaces.json", (spaces.Box(-1, 1, (2,)), spaces.Discrete(3))
    recorded = spaces_to_json(*both)
    assert load_spaces(path, recorded) == both  # The file is missing.
    save_spaces(path, *both)
    assert load_spaces(path, recorded) == both
    save_spaces(path, both[0], spaces.Discrete(4))
    with pytest.raises(UsageError, match="action_space.n is 4, in the checkpoint 3"):
        load_spaces(path, recorded)


def test_a_flipped_bit_is_never_another_space(tmp_path):
    path, draw = tmp_path / "spaces.json", random.Random(0)
    both = spaces.Dict(a=spaces.Box(-1.5, 3, (2,)), c=spaces.MultiBinary(3)), spaces.Discrete(3)
    save_spaces(path, *both)
    data = path.read_bytes()
    for _ in range(400):
        place = draw.randrange(len(data))
        path.write_bytes(
            data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]
        )
        try:
            assert load_spaces(path) == both
        except UsageError as error:
            assert "spaces.json is damaged" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        "",
        "[",
        "3",
        "{}",
        '{"observation_space": {}}',
        "[" * 10**5,
    ],
)
def test_damaged_files_are_named(tmp_path, text):
    path = tmp_path / "spaces.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="spaces.json is damaged"):
        load_spaces(path)


def test_links_are_refused_and_missing_files_raise(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_spaces(tmp_path / "spaces.json")
    (tmp_path / "spaces.json").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="link"):
        load_spaces(tmp_path / "spaces.json")
