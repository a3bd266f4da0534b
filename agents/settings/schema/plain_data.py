"""Values of settings as plain data, which files and command lines hold."""

from __future__ import annotations

import json
import operator

from pydantic_core import PydanticCustomError

from agents.types import PlainData


def read_number(value: PlainData, kind: object) -> PlainData:
    """Prepares a value for the validation of a setting.

    Refuses booleans as numbers, which pydantic takes for 1 and 0, and reads integers as '1e6'.

    Args:
      value: A value of any setting.
      kind: The setting's type; values of settings that are no numbers are returned as they are.

    Raises:
      PydanticCustomError: A boolean was given for a number.
    """
    if kind in (int, float) and isinstance(value, bool):
        raise PydanticCustomError("number", "a boolean is not a number")
    if kind is float and isinstance(value, float):
        return float(value)  # NumPy's float64 passes for a float, but could not be saved.
    if kind is int and hasattr(value, "__index__"):
        try:
            return operator.index(value)
        except TypeError:
            return value  # An array of several numbers, which the validation refuses.
    if kind is int and isinstance(value, str) and "e" in value.lower():
        try:
            return float(value)
        except ValueError:
            return value
    return value


def as_saved(value: PlainData) -> PlainData:
    """Plain data as saved and loaded: lists for tuples, Python's numbers for NumPy's float64."""
    if isinstance(value, dict):
        return {key: as_saved(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_saved(item) for item in value]
    return float(value) if isinstance(value, float) else value


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
