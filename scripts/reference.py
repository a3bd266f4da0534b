"""Writes the tables of docs/reference/ and of the glossary: settings, commands, presets, words.

A page keeps its text as far as the marker; the tables follow.
"""

from __future__ import annotations

import html
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel

# The package `agents` of this checkout, from any working directory.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import agents
from agents.scripts.main import COMMANDS
from agents.settings.config import ALGORITHM_SETTINGS, Config
from agents.settings.config_file import load_config, preset_names
from agents.settings.parser import option_name
from agents.types import PlainData

ROOT = Path(__file__).resolve().parents[1]
MARKER = "<!-- The rest is written by scripts/reference.py. -->\n"


def main() -> None:
    """Writes the tables into their pages."""
    for name, text in pages().items():
        (ROOT / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Returns the text of each page with tables by its path."""
    tables: dict[str, Callable[[], str]] = {
        "docs/glossary.md": glossary_tables,
        "docs/reference/commands.md": commands_tables,
        "docs/reference/presets.md": presets_table,
        "docs/reference/settings.md": settings_tables,
    }
    texts = {}
    for name, make in tables.items():
        kept, marker, _ = (ROOT / name).read_text(encoding="utf-8").partition(MARKER)
        texts[name] = f"{kept}{marker}\n{make().strip()}\n"
    return texts


def settings_tables() -> str:
    """Returns a table of settings for each section of the configuration, as Markdown."""
    schema = Config.model_json_schema()
    lines: list[str] = []
    for name, setting in schema["properties"].items():
        if title := Config.sections.get(name):
            lines += ["", f"## {title.capitalize()}", ""]
            lines += ["| setting | values | default | |", "|:-|:-|:-|:-|"]
        default = json.dumps(setting.get("default"))
        values = _values(setting, schema.get("$defs", {}))
        anchor = f'<a id="{name}"></a>`{name}`'
        lines.append(
            f"| {anchor} | {values} | `{default}` | {_description(setting)}{_readers(name)} |"
        )
    return "\n".join(lines)


def _readers(name: str) -> str:
    """Names the algorithms that read a setting, unless all do."""
    readers = [key for key, names in ALGORITHM_SETTINGS.items() if name in names]
    everybody = not readers or len(readers) == len(ALGORITHM_SETTINGS)
    return "" if everybody else f" Only {', '.join(readers).upper()}."


def commands_tables() -> str:
    """Returns a section for each command, with a table of its own options, as Markdown."""
    lines: list[str] = []
    for name in COMMANDS:
        options = options_of(name)
        if options is None:
            lines += ["", f"## agents {name}", "", COMMANDS[name]]
            continue
        schema = options.model_json_schema()
        lines += ["", f"## agents {name}", "", *inspect.cleandoc(options.__doc__ or "").split("\n")]
        lines += ["", "| option | values | |", "|:-|:-|:-|"]
        for field, option in schema["properties"].items():
            is_argument = options.model_fields[field].title is not None
            label = options.model_fields[field].title if is_argument else option_name(field)
            values = _values(option, schema.get("$defs", {}))
            lines.append(f"| `{label}` | {values} | {_description(option)} |")
    return "\n".join(lines)


def options_of(command: str) -> type[BaseModel] | None:
    """Returns the model of a command's own options; None if it has none."""
    module = importlib.import_module(f"agents.scripts.{command}")
    options: type[BaseModel] | None = getattr(module, f"{command.capitalize()}Options", None)
    return options


def presets_table() -> str:
    """Returns a table of the presets: their environments, lengths and first comments."""
    lines = ["| preset | environment | steps | |", "|:-|:-|-:|:-|"]
    for name in preset_names():
        text = (ROOT / "configs" / f"{name}.yaml").read_text(encoding="utf-8")
        comment = text.partition("\n")[0].removeprefix("# ") if text.startswith("#") else ""
        config = load_config(name)
        lines.append(f"| `{name}` | `{config.env}` | {config.steps:,} | {comment} |")
    return "\n".join(lines)


def glossary_tables() -> str:
    """Returns the letters and the words of the glossary in `agents.__doc__` as tables in Markdown."""
    text = (agents.__doc__ or "").partition("Glossary.")[2]
    letters, _, words = text.partition("Words, each with one meaning:")
    rows = sorted(re.findall(r"\b([A-Z])  (.+?)(?=  |$)", letters, re.MULTILINE))
    lines = ["## Letters in shapes", "", "| letter | meaning |", "|:-|:-|"]
    lines += [f"| {letter} | {meaning} |" for letter, meaning in rows]
    lines += ["", "## Words", "", "| word | meaning |", "|:-|:-|"]
    words = re.sub(r"\n {10,}", " ", words)  # Meanings of several lines.
    for word, meaning in re.findall(r"^  (\S.*?) {2,}(.+)$", words, re.MULTILINE):
        lines.append(f"| `{word}` | {meaning} |")
    return "\n".join(lines)


def _values(setting: Mapping[str, PlainData], definitions: Mapping[str, PlainData]) -> str:
    """Describes the values that a setting takes: its type and its bounds."""
    if "enum" in setting:
        return ", ".join(f"`{value}`" for value in setting["enum"])
    if reference := setting.get("$ref"):
        fields = definitions[reference.rpartition("/")[2]]["properties"]
        described = (f"`{name}`: {_values(field, definitions)}" for name, field in fields.items())
        return "; ".join(described)
    if choices := [choice for choice in setting.get("anyOf", ()) if choice["type"] != "null"]:
        return ", ".join(_values(choice, definitions) for choice in choices)
    kind = setting.get("type", "value")
    if kind == "array":
        return f"list: {_values(setting['items'], definitions)}"
    names = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false"}
    bounds = {
        "minimum": "from",
        "exclusiveMinimum": "above",
        "maximum": "to",
        "exclusiveMaximum": "below",
    }
    words = [f"{word} {_number(setting[key])}" for key, word in bounds.items() if key in setting]
    return " ".join([names.get(kind, "dictionary"), *words])


def _description(setting: Mapping[str, PlainData]) -> str:
    """Returns a description whose characters mean nothing in Markdown."""
    escaped = html.escape(setting["description"], quote=False)
    return re.sub(r"([|\[\]*_])", r"\\\1", escaped)


def _number(value: float) -> str:
    return f"{value:,}" if abs(value) < 1e6 else f"{value:.0e}".replace("e+0", "e").replace("+", "")


if __name__ == "__main__":
    main()
