"""Command lines of pydantic models: a command's own options, and the settings of an experiment."""

from __future__ import annotations

import argparse
import copy
import inspect
import itertools
import json
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import BaseModel, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, CliSettingsSource, NoDecode, SettingsError
from ruamel.yaml.error import YAMLError

from agents.command_line.reports import version
from agents.command_line.spelling import normalize, option_name
from agents.errors import UsageError
from agents.settings.config_file import MissingValueError, parse_yaml
from agents.settings.peer_names import hint
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
    shown: Callable[[Mapping[str, str]], BaseModel] | None = None,
) -> tuple[CommandOptions, dict[str, PlainData]]:
    """Parses a command line such as `--logdir=runs --learning-rate 1e-3 --layers=64,64`.

    Every field is an option, in kebab-case; its description and default appear in the help. A tuple
    of strings with a title has no option: it takes the arguments that are no options.
    Underscores are taken for hyphens, and a switch alone for `true`.
    `--help` prints it and raises `SystemExit(0)`.

    Args:
      options: Model of the command's own options; its docstring introduces the help.
      arguments: What follows the command's name.
      program: The command as users type it, for the help.
      settings: Model of settings that are options, too; its `sections` are the titles of groups in
        the help, by the first setting of each.
      examples: Lines at the end of the help.
      shown: For the help, returns settings whose values it shows instead of defaults; gets the
        command's own options that were given, as texts.

    Returns:
      The validated options, and the given settings by name. The settings are not validated, which
      takes those of the preset; most of them are still strings.

    Raises:
      UsageError: An option is unknown, missing or wrong. The message has at most three lines.
    """
    own = options.model_fields
    fields = {**own, **(settings.model_fields if settings else {})}
    arguments = normalize(arguments, fields)
    if shown and {"-h", "--help"} & set(arguments):
        values = shown(_own_texts(arguments, own)).model_dump()
        fields = {name: _with_default(field, values.get(name)) for name, field in fields.items()}
    parser = _Parser(program, _usage(own, settings), options.__doc__ or "", examples)
    texts = _parse_texts(parser, arguments, fields, getattr(settings, "sections", {}))
    given = {name: _decode(name, fields[name].annotation, text) for name, text in texts.items()}
    chosen = {name: value for name, value in given.items() if name in own}
    overrides = {name: value for name, value in given.items() if name not in own}
    try:
        return options.model_validate(chosen), overrides
    except ValidationError as error:
        raise usage_error(error, options, chosen, label=_label(options)) from None


def _label(options: type[BaseModel]) -> Callable[[str], str]:
    """Returns a function that returns what messages and usage call a field of the model."""
    return lambda name: options.model_fields[name].title or option_name(name)


def _own_texts(arguments: Sequence[str], own: Mapping[str, FieldInfo]) -> dict[str, str]:
    """Returns the texts of the command's own options, of arguments that may be incomplete."""
    texts = {}
    for argument, following in itertools.zip_longest(arguments, arguments[1:], fillvalue=""):
        name, equals, value = argument.partition("=")
        field = name.removeprefix("--").replace("-", "_")
        if name.startswith("--") and field in own:
            texts[field] = value if equals else following
    return texts


def _with_default(field: FieldInfo, value: PlainData) -> FieldInfo:
    """Returns a field with another default; None leaves it as it is."""
    if value is None:
        return field
    changed = copy.copy(field)
    changed.default, changed.default_factory = value, None
    return changed


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats the help with descriptions from column 30 on."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=30)


class _Parser(argparse.ArgumentParser):
    """Raises errors; argparse prints them below a usage of fifty options."""

    def __init__(self, program: str, usage: str, introduction: str, examples: str):
        super().__init__(
            prog=program,
            usage=usage,
            description=inspect.cleandoc(introduction),
            epilog=examples,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
            add_help=False,
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
    """Prints versions, which take a moment to look up, and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(version())
        parser.exit()


class _Words(argparse.Action):
    """Stores arguments that are no options, as JSON: they may contain commas."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, json.dumps(values))


class _OptionAdder:
    """Replaces `ArgumentParser.add_argument`: adds readable help, in titled groups."""

    def __init__(
        self,
        parser: argparse.ArgumentParser,
        fields: Mapping[str, FieldInfo],
        sections: Mapping[str, str],
    ):
        self._fields, self._sections = fields, sections
        self._parser, self._group = parser, parser.add_argument_group("options")
        self._group.add_argument("-h", "--help", action="help", help="Prints this help.")
        self._group.add_argument("--version", action=_Version, nargs=0, help="Prints versions.")

    def __call__(self, parser: argparse.ArgumentParser, *names: str, **details: Any) -> None:
        name = details["dest"]
        field = self._fields[name]
        if name in self._sections:
            self._group = self._parser.add_argument_group(self._sections[name])
        details["metavar"] = _metavar(field.annotation)
        details["help"] = f"{field.description or ''}{_default(field)}".strip().replace("%", "%%")
        if field.title:
            self._group.add_argument(
                name,
                metavar=field.title,
                help=details["help"],
                nargs="*",
                action=_Words,
                default=argparse.SUPPRESS,
            )
        else:
            self._group.add_argument(*names, **details)


def _parse_texts(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    fields: Mapping[str, FieldInfo],
    sections: Mapping[str, str],
) -> dict[str, PlainData]:
    """Parses the options that were given: their texts, by field."""
    definitions: dict[str, Any] = {name: _undecoded(field) for name, field in fields.items()}
    try:
        source: CliSettingsSource[argparse.ArgumentParser] = CliSettingsSource(
            create_model("Command", __base__=BaseSettings, **definitions),
            root_parser=parser,
            parse_args_method=lambda parser, arguments: _parse_known(parser, arguments, fields),
            add_argument_method=_OptionAdder(parser, fields, sections),
            cli_kebab_case=True,
            cli_parse_none_str="\0",  # Arguments never hold this character: no text means None.
        )
        return source(args=list(arguments))()
    except SettingsError as error:
        raise UsageError(str(error)) from None


def _parse_known(
    parser: argparse.ArgumentParser, arguments: list[str], fields: Mapping[str, FieldInfo]
) -> argparse.Namespace:
    """Replaces `ArgumentParser.parse_args`: suggests a known option for an unknown one."""
    parsed, unknown = parser.parse_known_intermixed_args(arguments)
    if not unknown:
        return parsed
    misspelt = [argument for argument in unknown if argument.startswith("-")]
    if not misspelt:
        raise UsageError(
            f"unexpected argument '{unknown[0]}'; settings are given as --setting=value"
        )
    known = ["help", "version", *(name for name, field in fields.items() if not field.title)]
    lines = [
        f"unknown setting {name}{hint(name.lstrip('-'), known, option_name)}"
        for name in dict.fromkeys(argument.partition("=")[0] for argument in misspelt)
    ]
    for name, field in fields.items():
        if field.title and getattr(parsed, name, "[]") == "[]":
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
    """Whether a setting is a dictionary of settings of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _default(field: FieldInfo) -> str:
    """Returns the end of a field's help: its default as on the command line; empty for none."""
    if field.is_required():
        return " (required)"
    value = field.get_default(call_default_factory=True)
    if value in (None, ()):
        return ""
    if isinstance(value, tuple):
        text = ",".join(map(str, value))
    elif isinstance(value, BaseModel):
        text = value.model_dump_json()
    else:
        text = json.dumps(value) if isinstance(value, bool | dict) else str(value)
    return f" (default:{_NO_BREAK_SPACE}{text})"


def _undecoded(field: FieldInfo) -> tuple[object, FieldInfo]:
    """Returns a field's definition whose value pydantic-settings leaves as text.

    Its decoding would take `--env-kwargs=g=9.81` for the text "9.81", and has error messages of its
    own.
    """
    plain = copy.copy(field)
    plain.metadata = [*field.metadata, NoDecode]
    # Of a model, pydantic-settings would make an option for each of its fields.
    return str if _is_model(field.annotation) else field.annotation, plain


def _decode(name: str, annotation: object, text: PlainData) -> PlainData:
    """Decodes lists and dictionaries; a text that is neither is left to the validation."""
    origin = get_origin(annotation)
    if origin not in (tuple, dict) and not _is_model(annotation):
        return text
    try:
        return json.loads(f"[{text}]" if origin is tuple and not text.startswith("[") else text)
    except ValueError:
        if origin is not tuple:
            return _decode_yaml(name, text)
        has_names = get_args(annotation)[0] is str
        return [item.strip() for item in text.split(",")] if has_names else text


def _decode_yaml(name: str, text: str) -> PlainData:
    """Decodes a dictionary as it stands in a preset: `{g: 9.81}`.

    Raises:
      UsageError: A space is missing, as in `{g:9.81}`.
    """
    if not text.lstrip().startswith("{"):
        return text
    try:
        return cast(PlainData, parse_yaml(text))
    except MissingValueError as error:
        raise UsageError(f"{option_name(name)}: {error.problem}") from None
    except (YAMLError, ValueError, RecursionError):
        return text
