from typing import Annotated, Literal

import pytest
from pydantic import Field

from agents.settings.validation import abbreviate, describe_values


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Annotated[int, Field(ge=1, le=3)], "an integer from 1 to 3"),
        (Annotated[int, Field(ge=1)], "an integer of 1 or more"),
        (Annotated[float, Field(gt=0, le=100)], "a number above 0 and at most 100"),
        (float | None, "a number"),
        (Literal["red", "blue"] | int, "one of red, blue or an integer"),
    ],
)
def test_values_are_described(annotation, words):
    assert describe_values(annotation) == words


def test_long_values_are_abbreviated():
    assert len(abbreviate("x" * 100)) == 60 and abbreviate([1]) == "[1]"
