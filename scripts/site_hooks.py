"""What the site shows beside docs/: pages of the top level, linked sources, and generated tables.

Pages link to files of the repository by relative paths, which work where the repository is browsed:
`../../agents/ppo/loss.py#Loss.compute`. On the site, Markdown files of the top level are pages, and
other files have a page with their source, on which the symbol's line is the target.
"""

from __future__ import annotations

import ast
import html
import importlib
import inspect
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from pydantic import BaseModel

import agents
from agents.scripts.main import COMMANDS
from agents.settings.config import Config
from agents.settings.config_file import load_config, preset_names
from agents.settings.parser import option_name
from agents.types import PlainData

ROOT = Path(__file__).resolve().parents[1]
# Pages with all figures; they are not in the search.
DETAILS = ("benchmarks/details.md", "results/details.md", "tests/faults/details.md")
PAGES = ("BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md", "FAULTS.md", "RESULTS.md", *DETAILS)
IMAGES = ("benchmarks", "results")
LINK = re.compile(r"\[([^\[\]]*)\]\(((?:\.\./)+[\w./-]+)(?:#([\w.-]+))?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the top level, their images, and a page for every linked source."""
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for folder in IMAGES:
        for path in sorted((ROOT / folder).glob("*.png")):
            name = f"{folder}/{path.name}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for name in sorted(_linked_sources(files)):
        files.append(File.generated(config, _source_page(name), content=_source_text(name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fills in tables, and points links to files outside of docs/ at pages of the site."""
    if page.file.src_uri in PAGES:
        markdown = markdown.replace("](docs/", "](")
    if page.file.src_uri in DETAILS:
        page.meta["search"] = {"exclude": True}
    markdown = markdown.replace("<!-- settings -->", settings_tables())
    markdown = markdown.replace("<!-- presets -->", presets_table())
    markdown = markdown.replace("<!-- commands -->", commands_tables())
    markdown = markdown.replace("<!-- glossary -->", glossary_tables())

    def resolve(link: re.Match[str]) -> str:
        text, target, symbol = link.groups()
        name = _outside(page.file.src_uri, target)
        if name is None:
            return link[0]
        if name in PAGES:
            url = posixpath.relpath(name, posixpath.dirname(page.file.src_uri) or ".")
            return f"[{text}]({url}{'#' + symbol if symbol else ''})"
        file = files.get_file_from_path(_source_page(name))
        if file is None:
            raise PluginError(f"{page.file.src_uri} links to {name}, which does not exist")
        anchor = f"#__codelineno-0-{line_of(ROOT / name, symbol)}" if symbol else ""
        return f'<a href="{get_relative_url(file.url, page.url)}{anchor}">{text}</a>'

    return LINK.sub(resolve, markdown)


def line_of(path: Path, symbol: str) -> int:
    """Returns the line of a function, class or method of a module.

    Raises:
      PluginError: There is no such symbol.
    """
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    line = 0
    for name in symbol.split("."):
        for node in body:
            if name in _names(node):
                line, body = node.lineno, getattr(node, "body", [])
                break
        else:
            raise PluginError(f"{path.relative_to(ROOT)} has no {symbol}")
    return line


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
        lines.append(f"| {anchor} | {values} | `{default}` | {_description(setting)} |")
    return "\n".join(lines)


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


def _linked_sources(files: Files) -> Iterator[str]:
    """Names of the files outside of docs/ that pages link to, as in `agents/ppo/ppo.py`."""
    found = set()
    for file in files.documentation_pages():
        for link in LINK.finditer(file.content_string):
            name = _outside(file.src_uri, link[2])
            if name is not None and name not in PAGES and (ROOT / name).is_file():
                found.add(name)
    yield from found


def _outside(page: str, target: str) -> str | None:
    """Returns the file of the repository that a page links to, None if it lies in docs/."""
    folder = posixpath.dirname(page if page in PAGES else f"docs/{page}")
    name = posixpath.normpath(posixpath.join(folder, target))
    return None if name.startswith("docs/") else name


def _source_page(name: str) -> str:
    return f"source/{name}.md"


def _source_text(name: str) -> str:
    language = {".py": "python", ".yaml": "yaml"}.get(posixpath.splitext(name)[1], "text")
    source = (ROOT / name).read_text(encoding="utf-8")
    head = f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n# {name}\n\n"
    return f'{head}````{language} linenums="1"\n{source}````\n'


def _names(node: ast.stmt) -> list[str]:
    """Names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


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
