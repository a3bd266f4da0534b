"""Problems with people's input, in words: what was expected, what was got, and what was probably meant."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from agents.tools.errors import UsageError

_KINDS: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}
_MOST_LINES = 3


def usage_error(
    error: ValidationError,
    model: type[BaseModel],
    given: Mapping[str, Any],
    label: Callable[[str], str] = str,
    spelling: Callable[[str], str] = repr,
    origin: Callable[[str], str] = lambda name: "",
) -> UsageError:
    """Turns pydantic's errors into one of ours, of at most three lines.

    Args:
      error: What pydantic raised.
      model: The model whose fields were validated.
      given: The values that were validated, by field.
      label: How a field is called where its value was wrong.
      spelling: How a field is spelled where its name was wrong.
      origin: Words for the place that a field's value comes from, such as ' in my.yaml'.

    Returns:
      The error, to be raised.
    """
    lines: dict[str, None] = {}
    for problem in error.errors(include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if not name:
            line = problem["msg"]
        elif problem["type"] in ("extra_forbidden", "invalid_key"):
            line = f"unknown setting {spelling(name)}{origin(name)}{did_you_mean(name, model.model_fields, spelling)}"
        elif problem["type"] == "missing":
            line = f"{label(name)} is required"
        else:
            field = model.model_fields[name]
            wanted = expected(field.annotation, field.metadata)
            line = f"{label(name)}{origin(name)}: expected {wanted}, got {shown(given[name])}"
        lines[line] = None
    listed = list(lines)
    if len(listed) > _MOST_LINES:
        listed = [*listed[: _MOST_LINES - 1], f"and {len(listed) - _MOST_LINES + 1} more"]
    return UsageError("\n".join(listed))


def did_you_mean(word: str, known: Iterable[str], spelling: Callable[[str], str] = repr) -> str:
    """The end of an error message that suggests the nearest known word; empty where none is near."""
    lowered = {name.lower(): name for name in known}
    nearest = [name for name in lowered if name.startswith(word.lower())] if len(word) > 2 else []
    nearest = nearest or difflib.get_close_matches(word.lower(), lowered, n=1)
    return f"; did you mean {spelling(lowered[nearest[0]])}?" if nearest else ""


def expected(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """Words for the values that a type and its bounds allow, such as 'a number above 0 and at most 1'."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        flat = [item for part in arguments[1:] for item in (part.metadata if isinstance(part, FieldInfo) else [part])]
        return expected(arguments[0], flat)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin in (Union, types.UnionType):
        return " or ".join(expected(kind) for kind in arguments if kind is not type(None))
    if origin is tuple:
        example = "[x, y]" if arguments[0] is str else "[64, 64]"
        return f"a list, such as {example}, and each item {expected(arguments[0])}"
    if origin is dict:
        return 'plain data by name, such as {"g": 9.81}'
    return f"{_KINDS.get(annotation, 'a path')}{_bounds(metadata)}"


def shown(value: Any) -> str:
    """A value in one line of at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _bounds(metadata: Iterable[Any]) -> str:
    """Words for the bounds among a field's metadata, with a leading space; empty where there are none."""
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
