import numpy as np
import pytest
from pydantic_core import PydanticCustomError

from agents.settings.schema.plain_data import as_saved, as_text, read_number


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("1e6", int, 1e6),
        ("one", int, "one"),
        ("hundred", int, "hundred"),
        (np.int64(3), int, 3),
        (np.float64(0.5), float, 0.5),
        (True, bool, True),
        ("1e6", str, "1e6"),
    ],
)
def test_values_are_prepared_for_their_setting(value, kind, expected):
    result = read_number(value, kind)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("kind", [int, float])
def test_booleans_are_no_numbers(kind):
    with pytest.raises(PydanticCustomError):
        read_number(True, kind)


def test_plain_data_is_what_a_file_gives_back():
    saved = as_saved({"sizes": (1, (2.0, np.float64(0.5))), "name": "x", "none": None})
    assert saved == {"sizes": [1, [2.0, 0.5]], "name": "x", "none": None}
    assert type(saved["sizes"][1][1]) is float


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.00012345, None, "0.00012345"),
        (0.00012345, 3, "0.000123"),
        ([64, 64], 3, "64,64"),
        ([], None, ""),
        ("tanh", None, "tanh"),
        (True, None, "true"),
        (3, 1, "3"),
        (None, None, "null"),
        ({"size": 0.1}, 3, '{"size": 0.1}'),
    ],
)
def test_values_are_spelled_as_on_the_command_line(value, digits, text):
    assert as_text(value, digits) == text
