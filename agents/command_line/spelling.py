"""Spellings of options: as people type them, and as other libraries call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic.fields import FieldInfo


def option_name(field: str) -> str:
    """Returns a field's option: `--learning-rate` for `learning_rate`."""
    return f"--{field.replace('_', '-')}"


def normalize(arguments: Sequence[str], fields: Mapping[str, FieldInfo]) -> list[str]:
    """Returns arguments with hyphens in the names of options, and `=true` after switches alone.

    Args:
      arguments: What follows the command's name.
      fields: The fields that are options. Other arguments stay as they are.
    """
    normalized: list[str] = []
    names = {option_name(field): field for field in fields}
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        option = option_name(name.removeprefix("--")) if name.startswith("--") else ""
        if option not in names:
            normalized.append(argument)
            continue
        following = arguments[index + 1 : index + 2]
        is_switch = fields[names[option]].annotation is bool
        if is_switch and not equals and (not following or following[0].startswith("-")):
            option, equals, value = option, "=", "true"
        normalized.append(f"{option}{equals}{value}")
    return normalized
