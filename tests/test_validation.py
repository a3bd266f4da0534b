from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.validation import did_you_mean, expected, shown, usage_error


class Kettle(BaseModel):
    model_config = ConfigDict(extra="forbid")

    heat: float = Field(20, gt=0, le=100)
    colour: Literal["red", "blue"] = "red"
    cups: int = Field(1, ge=1)


def complaint(**given):
    with pytest.raises(ValidationError) as caught:
        Kettle.model_validate(given)
    return str(usage_error(caught.value, Kettle, given))


@pytest.mark.parametrize(
    "given, words",
    [
        ({"heat": 101}, "heat: expected a number above 0 and at most 100, got 101"),
        ({"cups": "many"}, "cups: expected an integer of 1 or more, got 'many'"),
        ({"colour": "green"}, "colour: expected one of red, blue, got 'green'"),
        ({"haet": 1}, "unknown setting 'haet'; did you mean 'heat'?"),
    ],
)
def test_says_what_was_expected_and_what_was_got(given, words):
    assert complaint(**given) == words


def test_many_mistakes_fit_in_three_lines():
    lines = complaint(heat=-1, cups=0, colour="", lid=1).splitlines()
    assert len(lines) == 3 and lines[-1] == "and 2 more"


def test_suggests_only_what_is_near():
    assert did_you_mean("pendulun", ["pendulum", "ant"]) == "; did you mean 'pendulum'?"
    assert did_you_mean("xyz", ["pendulum", "ant"]) == ""


def test_bounds_in_words():
    assert expected(Annotated[int, Field(ge=1, le=3)]) == "an integer from 1 to 3"
    assert expected(float | None) == "a number"


def test_long_values_are_cut():
    assert len(shown("x" * 100)) == 60 and shown([1]) == "[1]"
