"""Experiments as YAML files: presets, user files and the files of runs."""

from __future__ import annotations

import hashlib
import io
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StreamMark, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    ScalarEvent,
)

from agents.errors import UsageError
from agents.regular_files import write_atomically
from agents.settings.config import MAX_DEPTH, Config
from agents.settings.env_function import EnvFunction
from agents.settings.validation import usage_error
from agents.settings.without_effect import settings_without_effect
from agents.suggestion import did_you_mean
from agents.types import PlainData

PRESETS = Path(__file__).parents[1] / "presets"

# The one key of a file that is no setting: a preset whose settings the file changes.
EXTENDS = "extends"

# Of a file, far beyond any experiment.
MAX_BYTES = 100_000

_CHECKSUM = b"# sha256 of the lines above: "  # The last line of a file that training writes.


class MissingValueError(MarkedYAMLError):
    """A key without a value in braces, such as the "g:9" of {g:9}, which YAML takes for a name."""

    def __init__(self, key: str, mark: StreamMark):
        """Says how the key and its value are written."""
        name, value = re.fullmatch("([^:=]*)[:=]?(.*)", key, re.DOTALL).groups()  # type: ignore[union-attr]
        hint = f"write '{name}: {value or 'VALUE'}', with a space after the colon"
        super().__init__(problem=f"'{key}' has no value; {hint}", problem_mark=mark)


def load_config(name: str | os.PathLike[str] = "default", **overrides: PlainData) -> Config:
    """Loads an experiment and validates it.

    Args:
      name: Name of a preset (see `preset_names`), or path of a YAML file, recognized by its suffix
        or a separator. The file may name a preset that it `extends`.
      **overrides: Settings that replace those of the file; numbers may be strings. A dictionary
        replaces the file's dictionary as a whole. `env` may be a function that makes an
        environment, see `EnvFunction`.

    Returns:
      The experiment; other settings have their defaults. A warning names those that were given
      and have no effect beside the others.

    Raises:
      UsageError: There is no such preset or file, it can't be read, or a setting is unknown, of a
        wrong type or out of range. The message has at most three lines.
    """
    if not isinstance(name, str | os.PathLike):
        raise UsageError(
            f"load_config expected the name of a preset or a path, got {name!r}; pass settings by name: env=..."
        )
    path = _find_file(name)
    values = read_mapping(path)
    inherited = _inherited(path, values.pop(EXTENDS, None))
    if callable(overrides.get("env")):
        overrides["env"] = EnvFunction(overrides["env"])
    given = {**inherited, **values, **overrides}

    def origin(setting: str) -> str:
        return "" if setting in overrides else f" in {path}"

    try:
        config = Config.model_validate(given)
    except ValidationError as error:
        raise usage_error(error, Config, given, origin=origin) from None
    except RecursionError:
        # Files are bounded when they are read.
        names = [name for name, value in overrides.items() if isinstance(value, dict)]
        raise UsageError(f"{', '.join(names)}: nested too deeply, or contained in itself") from None
    # The validation makes it a plain string.
    kept = {"env": given["env"]} if isinstance(given.get("env"), EnvFunction) else {}
    config = config.model_copy(update=kept) if kept else config
    # Nobody has chosen what stands in presets and in files of runs.
    is_chosen = path.parent != PRESETS and has_right_checksum(path) is None
    chosen = {*overrides, *(values if is_chosen else ())}
    for line in settings_without_effect(config, chosen):
        warnings.warn(line, stacklevel=2)
    return config


def save_config(config: Config, path: str | os.PathLike[str]) -> None:
    """Writes all settings to a YAML file, from which `load_config` gives an equal configuration.

    The last line is a checksum, for `has_right_checksum`.

    Args:
      config: The experiment.
      path: File to write. An existing one is replaced atomically.

    Raises:
      OSError: The file can't be written.
      UsageError: The file would be too long to be read.
    """
    write_atomically(Path(path), with_checksum(config_text(config)))


def with_checksum(text: str) -> bytes:
    """Returns the content of a YAML file whose last line is a checksum of the others."""
    lines = text.encode()
    return lines + _CHECKSUM + hashlib.sha256(lines).hexdigest().encode() + b"\n"


def has_right_checksum(path: Path) -> bool | None:
    """Returns whether a file has the content of `with_checksum`; None if it has no checksum.

    Raises:
      OSError: It can't be read.
    """
    with path.open("rb") as file:
        text, found, checksum = file.read(MAX_BYTES).rpartition(_CHECKSUM)
    if not found:
        return None
    return hashlib.sha256(text).hexdigest().encode() == checksum.strip()


def config_text(config: Config) -> str:
    """Returns all settings as YAML, see `save_config`.

    Raises:
      UsageError: It is longer than files of settings that are read.
    """
    text = yaml_text(config.settings())
    if len(text) + 100 > MAX_BYTES:  # With a checksum.
        raise UsageError(
            f"the settings take {len(text):,} bytes as YAML, more than the {MAX_BYTES:,} of a file; "
            "give long values, such as those in env_kwargs, as the path of a file"
        )
    return text


def yaml_text(values: Mapping[str, PlainData]) -> str:
    """Returns plain data as YAML, which `read_mapping` reads."""
    yaml = YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    # In flow style, ruamel.yaml writes {?x: 1} and can't read it.
    yaml.default_flow_style = False
    yaml.allow_unicode = False  # Some line separators are not read back unless escaped.
    text = io.StringIO()
    yaml.dump(values, text)
    return text.getvalue()


def preset_names() -> list[str]:
    """Returns the names of the experiments that come with the library, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def _find_file(name: str | os.PathLike[str]) -> Path:
    """Returns the path of a preset, or the path that was given."""
    text = os.fspath(name)
    if isinstance(name, os.PathLike) or text.endswith((".yaml", ".yml")) or os.sep in text:
        return Path(os.path.expanduser(text))
    names = preset_names()
    if text not in names:
        is_env = re.search(r"-v\d+$", text)
        suggestion = (
            f"; an environment is the setting env, as in --env={text}"
            if is_env
            else did_you_mean(text, names)
        )
        raise UsageError(
            f"unknown preset '{text}'{suggestion}\n"
            f"presets: {', '.join(names)}\nor give the path of a .yaml file"
        )
    return PRESETS / f"{text}.yaml"


def _inherited(path: Path, base: PlainData) -> Mapping[str, PlainData]:
    """Returns the settings of the preset that a file extends, if any, and of those that it extends."""
    if base is None:
        return {}
    if base not in preset_names():
        suggestion = did_you_mean(str(base), preset_names())
        raise UsageError(f"{EXTENDS} in {path}: expected a preset, got {base!r}{suggestion}")
    preset = PRESETS / f"{base}.yaml"
    values = read_mapping(preset)
    return {**_inherited(preset, values.pop(EXTENDS, None)), **values}


def read_mapping(path: Path) -> dict[str, PlainData]:
    """Returns the mapping in a YAML file, not validated.

    Raises:
      UsageError: It can't be read, is too large, or holds something else.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
        values = parse_yaml(data.decode("utf-8"))
    except OSError as error:
        hint = "; name the run's folder, latest is none" if path.parent.name == "latest" else ""
        raise UsageError(f"can't read {path}: {error.strerror or error}{hint}") from None
    except MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = " ".join((error.problem or error.context or "not valid YAML").split())[:200]
        raise UsageError(f"can't read {path}{line}: {problem}") from None
    except (YAMLError, ValueError) as error:
        raise UsageError(f"can't read {path}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(f"can't read {path}: nested too deeply") from None
    if not isinstance(values, dict):
        found = "nothing" if values is None else type(values).__name__
        raise UsageError(f"can't read {path}: expected lines such as 'steps: 100000', got {found}")
    return values


def parse_yaml(text: str) -> object:
    """Returns what YAML stands for, not validated.

    Raises:
      YAMLError: It is not valid YAML, or a key in braces has no value.
      ValueError: It has an alias: a few hundred bytes could stand for gigabytes.
      RecursionError: It is nested too deeply.
    """
    open_nodes: list[CollectionStartEvent] = []
    key = ""
    for event in YAML(typ="safe", pure=True).parse(text):
        if isinstance(event, AliasEvent):
            raise ValueError(f"it has the alias '*{event.anchor}'; write the value there instead")
        if isinstance(event, CollectionEndEvent):
            open_nodes.pop()
        elif isinstance(event, CollectionStartEvent):
            open_nodes.append(event)
        elif isinstance(event, ScalarEvent):
            is_empty = not event.value and event.implicit[0]  # Not "".
            if is_empty and open_nodes and open_nodes[-1].flow_style:
                raise MissingValueError(key, event.start_mark)
            key = event.value
        if len(open_nodes) > MAX_DEPTH:
            raise RecursionError
    return YAML(typ="safe", pure=True).load(text)
