"""Command lines of pydantic models: a command's own options, and the settings of an experiment."""

from __future__ import annotations

import argparse
import inspect
import json
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import YAMLError

from agents.errors import UsageError
from agents.settings.config import ENTRY_POINTS, Config
from agents.settings.config_file import (
    MissingValueError,
    load_config,
    parse_yaml,
    preset_names,
)
from agents.settings.peer_names import hint
from agents.settings.reports import version
from agents.settings.validation import usage_error
from agents.types import PlainData

CommandOptions = TypeVar("CommandOptions", bound=BaseModel)

_METAVARS: dict[object, str] = {
    bool: "true|false",
    int: "INT",
    float: "FLOAT",
    str: "TEXT",
    Path: "PATH",
}
_NO_BREAK_SPACE = "\xa0"


def parse_command(
    options: type[CommandOptions],
    arguments: Sequence[str],
    *,
    program: str,
    settings: type[BaseModel] | None = None,
    examples: str = "",
) -> tuple[CommandOptions, dict[str, PlainData]]:
    """Parses a command line such as `--logdir=runs --learning-rate 1e-3 --layers=64,64`.

    Every field is an option, in kebab-case; its description and default appear in the help. A tuple
    of strings with a title has no option: it takes the positional arguments.
    Underscores are read as hyphens, a switch alone as `true`, repeated lists as one.
    `--help` and `--help=all` print a help and raise `SystemExit(0)`, see `short_help` and
    `make_parser`. If `config` is an option, both show the settings of that preset or file.

    Args:
      options: Model of the command's own options; its docstring introduces the help.
      arguments: The arguments after the command's name.
      program: The command as users type it, for the help.
      settings: Model of settings that are also options. Its `sections` are the titles of groups in
        the help, by the first setting of each.
      examples: Lines at the end of the help.

    Returns:
      The validated options, and the given settings by name. The settings are not validated, which
      takes those of the preset; most of them are still strings.

    Raises:
      UsageError: An option is unknown, missing or wrong. The message has at most three lines.
    """
    own = options.model_fields
    fields = {**own, **(settings.model_fields if settings else {})}
    arguments = _normalize(arguments, fields)
    values: Mapping[str, PlainData] = {}
    wanted = _wanted_help(arguments)
    if wanted and "config" in own:
        incomplete = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        incomplete.add_argument("--config", nargs="?")
        name = incomplete.parse_known_args(arguments)[0].config
        values = load_config(name or "default").settings("python")
    parser = make_parser(options, program, settings, examples, values)
    if wanted:
        is_short = wanted == "short" and _essentials(options, settings) is not None
        text = parser.format_help().rstrip("\n")
        print(short_help(parser, options, settings, values) if is_short else text)
        raise SystemExit(0)
    texts = _parse_known(parser, arguments, fields)
    given = {name: _decode(name, fields[name].annotation, text) for name, text in texts.items()}
    chosen = {name: value for name, value in given.items() if name in own}
    overrides = {name: value for name, value in given.items() if name not in own}

    def label(name: str) -> str:
        return own[name].title or option_name(name)

    try:
        return options.model_validate(chosen), overrides
    except ValidationError as error:
        raise usage_error(error, options, chosen, label) from None


def _wanted_help(arguments: Sequence[str]) -> Literal["short", "all"] | None:
    """Returns the help that arguments ask for.

    Raises:
      UsageError: `--help` has a value other than `all`.
    """
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if argument == "-h" or name == "--help":
            if equals and value != "all":
                raise UsageError(f"--help: expected --help or --help=all, got {value!r}")
            return "all" if equals or arguments[index + 1 : index + 2] == ["all"] else "short"
    return None


def _essentials(options: type[BaseModel], settings: type[BaseModel] | None) -> set[str] | None:
    """Returns the fields of the short help; None if no model has a list of `essentials`."""
    models = [model for model in (options, settings) if model]
    if not any(hasattr(model, "essentials") for model in models):
        return None
    return {name for model in models for name in getattr(model, "essentials", model.model_fields)}


def short_help(
    parser: argparse.ArgumentParser,
    options: type[BaseModel],
    settings: type[BaseModel] | None,
    values: Mapping[str, PlainData],
) -> str:
    """Returns a help with a line for each essential field: its value and its first sentence.

    Args:
      parser: Result of `make_parser`.
      options: See `parse_command`. Its `essentials` are the names of the fields; by default all.
      settings: See `parse_command`. Likewise.
      values: See `make_parser`. A setting that is missing belongs to another algorithm.
    """
    own, shown = options.model_fields, _essentials(options, settings) or set()
    lines = [("-h, --help", "Prints this help."), ("--version", "Prints versions.")]
    titled = [f"usage: {_usage(own, settings) % {'prog': parser.prog}}", "", parser.description]
    for title, model in (("options", options), ("settings and their values", settings)):
        for name, field in model.model_fields.items() if model else ():
            if name in shown and (name in own or name in values):
                summary = (field.description or "").partition(". ")[0].removesuffix(".")
                required = " (required)" if field.is_required() else ""
                lines.append((_with_value(name, field, values.get(name)), f"{summary}.{required}"))
        titled += ["", f"{title}:", *(f"  {label:<27} {text}" for label, text in lines)]
        lines = []
    return "\n".join(
        [*map(str, titled), "", str(parser.epilog), f"All settings: {parser.prog} --help=all"]
    )


def _with_value(name: str, field: FieldInfo, value: PlainData) -> str:
    """Returns an option as users type it, such as `--learning-rate=0.0003`."""
    text = _value_text(field, value)
    if field.annotation is bool and text != "true" and value is None:
        return option_name(name)
    return f"{option_name(name)}={text or _metavar(field.annotation)}"


def make_parser(
    options: type[BaseModel],
    program: str = "",
    settings: type[BaseModel] | None = None,
    examples: str = "",
    values: Mapping[str, PlainData] | None = None,
) -> argparse.ArgumentParser:
    """Returns a parser of texts by field, with readable help in titled groups.

    Args:
      options: See `parse_command`.
      program: See `parse_command`.
      settings: See `parse_command`.
      examples: See `parse_command`.
      values: Values by field that the help shows instead of defaults.
    """
    own = options.model_fields
    parser = _Parser(
        program, usage=_usage(own, settings), description=inspect.cleandoc(options.__doc__ or "")
    )
    parser.epilog = examples
    group = parser.add_argument_group("options")
    group.add_argument("-h", "--help", action="help", help="Prints this help.")
    group.add_argument(
        "--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="Prints versions."
    )
    sections = getattr(settings, "sections", {})
    for name, field in {**own, **(settings.model_fields if settings else {})}.items():
        if name in sections:
            group = parser.add_argument_group(sections[name])
        default = _default(field, (values or {}).get(name))
        details: dict[str, Any] = {
            "help": f"{field.description or ''}{default}".strip().replace("%", "%%"),
            "default": argparse.SUPPRESS,
            "metavar": field.title or _metavar(field.annotation),
        }
        if values and name not in {**own, **values}:
            details["help"] = argparse.SUPPRESS  # Of another algorithm.
        if field.title:
            group.add_argument(name, nargs="*", **details)
        else:
            action = "append" if get_origin(field.annotation) is tuple else "store"
            added = group.add_argument(option_name(name), dest=name, action=action, **details)
            if words := _words(name, details["metavar"]):  # Read by argcomplete.
                added.completer = lambda words=words, **_: words  # type: ignore[attr-defined]
    return parser


def _words(name: str, metavar: str) -> Sequence[str]:
    """Returns the values of an option that shells complete; empty for paths and free texts."""
    if name == "config":
        return preset_names()
    if name in ENTRY_POINTS:
        return ENTRY_POINTS[name][0]
    return [word for word in metavar.split("|") if word.islower()]


def option_name(field: str) -> str:
    """Returns a field's option: `--learning-rate` for `learning_rate`."""
    return f"--{field.replace('_', '-')}"


def _normalize(arguments: Sequence[str], fields: Mapping[str, FieldInfo]) -> list[str]:
    """Returns arguments with hyphens in the names of options, and `=true` after switches alone."""
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
            equals, value = "=", "true"
        normalized.append(f"{option}{equals}{value}")
    return normalized


class _Parser(argparse.ArgumentParser):
    """Raises errors; argparse prints them below a usage of fifty options."""

    def __init__(self, program: str, **details: Any):
        super().__init__(
            program,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, max_help_position=30
            ),
            allow_abbrev=False,
            add_help=False,
            **details,
        )

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ")
        if text.endswith(": expected one argument"):
            name = text.removesuffix(": expected one argument")
            text = f"{name} needs a value; write {name}=VALUE"
        raise UsageError(text)

    def format_help(self) -> str:
        return super().format_help().replace(_NO_BREAK_SPACE, " ")


class _Version(argparse.Action):
    """Prints versions, whose lookup takes a moment, and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(version())
        parser.exit()


def _parse_known(
    parser: argparse.ArgumentParser, arguments: Sequence[str], fields: Mapping[str, FieldInfo]
) -> dict[str, PlainData]:
    """Returns the texts of the given options by field; suggests a known one for an unknown one."""
    namespace, unknown = parser.parse_known_intermixed_args(arguments)
    texts = {
        name: ",".join(value) if isinstance(value, list) and not fields[name].title else value
        for name, value in vars(namespace).items()
    }
    # Argparse takes an unknown option with a space in its value for an argument without an option.
    plain = [
        text for name, field in fields.items() if field.title for text in texts.get(name) or ()
    ]
    misspelt = [argument for argument in [*unknown, *plain] if argument.startswith("-")]
    if not misspelt and not unknown:
        return texts
    if not misspelt:
        raise UsageError(
            f"unexpected argument '{unknown[0]}'; settings are given as --setting=value"
        )
    known = ["help", "version", *(name for name, field in fields.items() if not field.title)]
    lines = [
        f"{parser.prog} does not take {name}"
        if name in map(option_name, Config.model_fields)
        else f"unknown setting {name}{hint(name.lstrip('-'), known, option_name)}"
        for name in dict.fromkeys(argument.partition("=")[0] for argument in misspelt)
    ]
    for name, field in fields.items():
        if field.title and not texts.get(name):
            lines.append(f"{field.title} is given without an option: {parser.prog} {field.title}")
    raise UsageError("\n".join([*lines[:2], f"and {len(lines) - 2} more"] if lines[3:] else lines))


def _usage(own: Mapping[str, FieldInfo], settings: type[BaseModel] | None) -> str:
    """Returns the first line of the help: the required options, and that there are others."""
    required = [
        f"{field.title}..." if field.title else f"{option_name(name)}={_metavar(field.annotation)}"
        for name, field in own.items()
        if field.is_required()
    ]
    return " ".join(
        ["%(prog)s", *required, "[--setting=value ...]" if settings else "[--option=value ...]"]
    )


def _metavar(annotation: object) -> str:
    """Returns the short name of a type, such as INT,INT,... for a tuple of integers."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _metavar(arguments[0])
    if origin is Literal:
        return "|".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return "|".join(_metavar(kind) for kind in arguments if kind is not type(None))
    if origin is tuple:
        return f"{_metavar(arguments[0])},..."
    if origin is dict or _is_model(annotation):
        return "JSON"
    return _METAVARS.get(annotation, "VALUE")


def _is_model(annotation: object) -> bool:
    """Returns whether a setting is a dictionary of settings of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _default(field: FieldInfo, value: PlainData) -> str:
    """Returns the end of a field's help: a value, or else its default; empty for none."""
    if value is None and field.is_required():
        return " (required)"
    text = _value_text(field, value)
    return f" (default:{_NO_BREAK_SPACE}{text})" if text else ""


def _value_text(field: FieldInfo, value: PlainData) -> str:
    """Returns a value as users type it; by default the field's default, empty for none."""
    if value is None:
        value = None if field.is_required() else field.get_default(call_default_factory=True)
    if value in (None, ()):
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return json.dumps(value) if isinstance(value, bool | dict) else str(value)


def _decode(name: str, annotation: object, text: PlainData) -> PlainData:
    """Decodes lists and dictionaries; a text that is neither is left to the validation."""
    origin = get_origin(annotation)
    if not isinstance(text, str) or (origin not in (tuple, dict) and not _is_model(annotation)):
        return text
    try:
        is_bare = origin is tuple and not text.startswith("[")
        return json.loads(f"[{text}]" if is_bare else text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        if origin is not tuple:
            return _decode_yaml(name, text)
        has_names = get_args(annotation)[0] is str
        return [item.strip() for item in text.split(",")] if has_names else text


def _without_duplicates(pairs: list[tuple[str, PlainData]]) -> dict[str, PlainData]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError  # As YAML, which names the key.
    return values


def _decode_yaml(name: str, text: str) -> PlainData:
    """Decodes a dictionary as it stands in a preset: `{g: 9.81}`.

    Raises:
      UsageError: A space is missing, as in `{g:9.81}`, a key is there twice, or it is nested too
        deeply.
    """
    if not text.lstrip().startswith("{"):
        return text
    try:
        return cast(PlainData, parse_yaml(text))
    except (MissingValueError, DuplicateKeyError) as error:
        raise UsageError(f"{option_name(name)}: {error.problem}") from None
    except RecursionError:
        raise UsageError(f"{option_name(name)}: nested too deeply") from None
    except (YAMLError, ValueError):
        return text
