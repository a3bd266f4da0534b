"""Command lines made of pydantic models: options of the command itself, and settings of an experiment."""

from __future__ import annotations

import argparse
import copy
import inspect
import json
import os
import shutil
import sys
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, CliSettingsSource, NoDecode, SettingsError

from agents.tools.errors import UsageError
from agents.validation import did_you_mean, usage_error

Options = TypeVar("Options", bound=BaseModel)

_METAVARS: dict[Any, str] = {bool: "true|false", int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def parse_command(
    options: type[Options],
    arguments: Sequence[str],
    *,
    program: str,
    settings: type[BaseModel] | None = None,
    examples: str = "",
) -> tuple[Options, dict[str, Any]]:
    """Reads a command line such as `--logdir=runs --learning-rate 1e-3 --layers=64,64`.

    Every field is an option, in kebab-case; its description and default appear in the help. `--help` prints it and
    raises `SystemExit(0)`.

    Args:
      options: Model of the command's own options; its docstring introduces the help.
      arguments: What follows the command's name.
      program: The command as people type it, for the help.
      settings: Model of further settings that may be given, with titles for groups of them in its `sections`.
      examples: Lines that end the help.

    Returns:
      The validated options, and the settings that were given, by field name. The latter are not validated, since only
      together with a preset they can be; most of them are still strings.

    Raises:
      UsageError: An option is unknown, missing or wrong. The message has at most three lines.
    """
    own = options.model_fields
    fields = {**own, **(settings.model_fields if settings else {})}
    parser = _Parser(
        prog=program,
        usage=_usage(own, settings),
        description=inspect.cleandoc(options.__doc__ or ""),
        epilog=examples,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
        allow_abbrev=False,
    )
    definitions: dict[str, Any] = {name: _undecoded(field) for name, field in fields.items()}
    try:
        source: CliSettingsSource[Any] = CliSettingsSource(
            create_model("Command", __base__=BaseSettings, **definitions),
            root_parser=parser,
            parse_args_method=_parse_known,
            add_argument_method=_HelpWriter(parser, fields, getattr(settings, "sections", {})),
            cli_kebab_case=True,
            cli_parse_none_str="\0",  # No argument holds this character, so no word is taken for None.
        )
        texts = source(args=list(arguments))()
    except SettingsError as error:
        raise UsageError(str(error)) from None
    given = {name: _decode(fields[name].annotation, text) for name, text in texts.items()}
    chosen = {name: value for name, value in given.items() if name in own}
    overrides = {name: value for name, value in given.items() if name not in own}
    try:
        return options.model_validate(chosen), overrides
    except ValidationError as error:
        raise usage_error(error, options, chosen, label=option_name) from None


def run(main: Callable[[list[str]], object], arguments: Sequence[str] | None = None) -> None:
    """Calls the main function of a command and reports what its user can put right, warnings in a line each.

    Args:
      main: Takes the command's arguments.
      arguments: What follows the command's name; those of this process if None.

    Raises:
      SystemExit: With code 2 after a `UsageError`, which is printed to standard error in at most three lines.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            main(sys.argv[1:] if arguments is None else list(arguments))
    except UsageError as error:
        lines = str(error).splitlines()[:3]
        print("error: " + "\n  ".join(lines), file=sys.stderr)
        raise SystemExit(2) from None


def interpreter() -> str:
    """How people call the Python that runs this: by its path, unless it is the one that `python` finds."""
    found = shutil.which("python")
    return "python" if found and Path(found) == Path(sys.executable) else os.path.relpath(sys.executable)


def option_name(field: str) -> str:
    """A field's name as an option: `learning_rate` is `--learning-rate`."""
    return f"--{field.replace('_', '-')}"


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Prints a warning that is meant for users without the line of code that it came from."""
    text = f"warning: {message}\n"
    if category is not UserWarning:
        text = warnings.formatwarning(message, category, filename, lineno, line)
    print(text, end="", file=file or sys.stderr)


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of printing its usage, which would bury the error under fifty options."""

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ")
        if text.endswith(": expected one argument"):
            name = text.removesuffix(": expected one argument")
            text = f"{name} needs a value; write {name}=VALUE"
        raise UsageError(text)


class _HelpWriter:
    """Adds arguments in place of `ArgumentParser.add_argument`, with help for people and in titled groups."""

    def __init__(self, parser: argparse.ArgumentParser, fields: Mapping[str, FieldInfo], sections: Mapping[str, str]):
        self._fields, self._sections = fields, sections
        self._parser, self._group = parser, parser.add_argument_group("options of this command")

    def __call__(self, parser: argparse.ArgumentParser, *names: str, **details: Any) -> None:
        name = details["dest"]
        field = self._fields[name]
        if name in self._sections:
            self._group = self._parser.add_argument_group(self._sections[name])
        details["metavar"] = _metavar(field.annotation)
        details["help"] = f"{field.description or ''}{_default(field)}".strip().replace("%", "%%")
        self._group.add_argument(*names, **details)


def _usage(own: Mapping[str, FieldInfo], settings: type[BaseModel] | None) -> str:
    """First line of the help: what must be given, and that there is more."""
    required = [
        f"{option_name(name)}={_metavar(field.annotation)}" for name, field in own.items() if field.is_required()
    ]
    return " ".join(["%(prog)s", *required, "[--setting=value ...]" if settings else "[--option=value ...]"])


def _metavar(annotation: Any) -> str:
    """Short name of a type, such as INT,INT,... for a tuple of integers."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _metavar(arguments[0])
    if origin is Literal:
        return "|".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return "|".join(_metavar(kind) for kind in arguments if kind is not type(None))
    if origin is tuple:
        return f"{_metavar(arguments[0])},..."
    return "JSON" if origin is dict else _METAVARS.get(annotation, "VALUE")


def _default(field: FieldInfo) -> str:
    """The end of a field's help that tells its default, written as on the command line."""
    if field.is_required():
        return " (required)"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    if isinstance(value, tuple):
        return f" (default: {','.join(map(str, value))})"
    return f" (default: {json.dumps(value) if isinstance(value, bool | dict) else value})"


def _undecoded(field: FieldInfo) -> Any:
    """A field's definition whose value pydantic-settings leaves as text.

    Its decoding would take `--env-kwargs=g=9.81` for the text "9.81" and report mistakes in its own words.
    """
    plain = copy.copy(field)
    plain.metadata = [*field.metadata, NoDecode]
    return (field.annotation, plain)


def _decode(annotation: Any, text: Any) -> Any:
    """Lists and dictionaries out of their text; text that is neither stays, for the validation to complain about."""
    origin = get_origin(annotation)
    if origin not in (tuple, dict):
        return text
    try:
        return json.loads(f"[{text}]" if origin is tuple and not text.startswith("[") else text)
    except ValueError:
        names = origin is tuple and get_args(annotation)[0] is str
        return [name.strip() for name in text.split(",")] if names else text


def _parse_known(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Parses in place of `ArgumentParser.parse_args`, with a suggestion for the first argument that is unknown."""
    parsed, unknown = parser.parse_known_args(arguments)
    if not unknown:
        return parsed
    misspelt = next((argument for argument in unknown if argument.startswith("-")), None)
    if misspelt is None:
        raise UsageError(f"unexpected argument '{unknown[0]}'; settings are given as --setting=value")
    name = misspelt.partition("=")[0]
    known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    raise UsageError(f"unknown setting {name}{did_you_mean(name.replace('_', '-'), known, str)}")
