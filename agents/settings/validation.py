"""Validation errors of pydantic as usage errors: what was expected, what was got, a suggestion."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from agents.errors import UsageError
from agents.settings.peer_names import hint
from agents.types import PlainData

_KINDS: dict[object, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
}
_MAX_LINES = 3
_MAX_VALUE_LENGTH = 60


def usage_error(
    error: ValidationError,
    model: type[BaseModel],
    given: Mapping[str, object],
    label: Callable[[str], str] = str,
    origin: Callable[[str], str] = lambda name: "",
) -> UsageError:
    """Translates pydantic's errors into one usage error of at most three lines.

    Args:
      error: What pydantic raised.
      model: The model whose fields were validated.
      given: The values that were validated, by field.
      label: Returns how the message calls a field with a wrong value.
      origin: Returns where a field's value comes from, such as ' in my.yaml'.
    """
    lines: dict[str, None] = {}  # Without duplicates, in order.
    for problem in error.errors(include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if not name:
            line = problem["msg"]
        elif problem["type"] in ("extra_forbidden", "invalid_key") and len(problem["loc"]) == 1:
            line = f"unknown setting {name!r}{origin(name)}"
            line += hint(name, model.model_fields, repr)
        elif problem["type"] == "missing":
            line = f"{label(name)} is required: {model.model_fields[name].description}"
        elif problem["type"] == "too_long":
            line = f"{label(name)}: expected at most {problem['ctx']['max_length']}, got "
            line += f"{problem['ctx']['actual_length']}: {abbreviate(given[name])}"
        elif problem["type"] == "string_too_short":
            line = f"{label(name)}: expected a text, got an empty one"
        elif problem["type"] == "string_too_long":
            line = f"{label(name)}: expected at most {problem['ctx']['max_length']} characters, "
            line += f"got more: {abbreviate(given[name])}"
        else:
            field = model.model_fields[name]
            line = f"{label(name)}{origin(name)}: expected "
            line += describe_values(field.annotation, field.metadata)
            line += f", got {abbreviate(given[name])}"
        lines[line] = None
    listed = list(lines)
    if len(listed) > _MAX_LINES:
        listed = [*listed[: _MAX_LINES - 1], f"and {len(listed) - _MAX_LINES + 1} more"]
    return UsageError("\n".join(listed))


def describe_values(annotation: object, metadata: Iterable[object] = ()) -> str:
    """Describes the values of a type and its bounds: 'a number above 0 and at most 1'."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        flat = [
            item
            for part in arguments[1:]
            for item in (part.metadata if isinstance(part, FieldInfo) else [part])
        ]
        return describe_values(arguments[0], flat)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe_values(kind) for kind in arguments if kind is not type(None))
    if origin is tuple:
        example = "[x, y]" if arguments[0] is str else "[64, 64]"
        return f"a list such as {example}, each item {describe_values(arguments[0])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = ", ".join(
            f"{name}, {describe_values(field.annotation, field.metadata)}"
            for name, field in annotation.model_fields.items()
        )
        return f"a dictionary with {fields}"
    if origin is dict:
        return 'a dictionary of plain data such as {"g": 9.81}'
    return f"{_KINDS.get(annotation, 'a path')}{_describe_bounds(metadata)}"


def abbreviate(value: object) -> str:
    """Returns the representation of a value in one line of at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 3]}..."


def as_text(value: PlainData, digits: int | None = None) -> str:
    """Spells a value as the command line takes it: lists with commas, dictionaries as JSON.

    Args:
      value: A value of any setting, as files hold it.
      digits: Significant digits of floats; by default all that tell them apart.
    """
    if isinstance(value, float) and digits:
        return f"{value:.{digits}g}"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _describe_bounds(metadata: Iterable[object]) -> str:
    """Describes the bounds in a field's metadata after a space; empty if there are none."""
    low, high = "", ""
    for bound in metadata:
        if isinstance(bound, Ge):
            low = f"from {bound.ge}"
        elif isinstance(bound, Gt):
            low = f"above {bound.gt}"
        elif isinstance(bound, Le):
            high = f"at most {bound.le}"
        elif isinstance(bound, Lt):
            high = f"below {bound.lt}"
    if low.startswith("from ") and high.startswith("at most "):
        return f" {low} to {high.removeprefix('at most ')}"
    if low.startswith("from ") and not high:
        return f" of {low.removeprefix('from ')} or more"
    return "".join(f" {words}" for words in (low, "and" if low and high else "", high) if words)
