from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.settings.validation import abbreviate, describe_values, usage_error
from agents.suggestion import did_you_mean


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rate: float = Field(20, gt=0, le=100)
    color: Literal["red", "blue"] = "red"
    count: int = Field(1, ge=1)


def message(**given):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(given)
    return str(usage_error(caught.value, Settings, given))


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"rate": 101}, "rate: expected a number above 0 and at most 100, got 101"),
        ({"count": "many"}, "count: expected an integer of 1 or more, got 'many'"),
        ({"color": "green"}, "color: expected one of red, blue, got 'green'"),
        ({"rtae": 1}, "unknown setting 'rtae'; did you mean 'rate'?"),
    ],
)
def test_message_has_what_was_expected_and_what_was_got(given, expected):
    assert message(**given) == expected


def test_many_errors_take_three_lines():
    lines = message(rate=-1, count=0, color="", lid=1).splitlines()
    assert len(lines) == 3 and lines[-1] == "and 2 more"


def test_only_similar_names_are_suggested():
    assert did_you_mean("pendulun", ["pendulum", "ant"]) == "; did you mean 'pendulum'?"
    assert did_you_mean("xyz", ["pendulum", "ant"]) == ""


def test_bounds_are_described():
    assert describe_values(Annotated[int, Field(ge=1, le=3)]) == "an integer from 1 to 3"
    assert describe_values(float | None) == "a number"


def test_long_values_are_abbreviated():
    assert len(abbreviate("x" * 100)) == 60 and abbreviate([1]) == "[1]"
