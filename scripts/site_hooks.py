"""What the site shows beside docs/: pages of the top level, and linked sources.

Pages link to files of the repository by relative paths, which work where the repository is browsed:
`../../agents/ppo/loss.py#Loss.compute`. On the site, Markdown files of the top level are pages, and
other files have a page with their source, on which the symbol's line is the target.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

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
    """Points links to files outside of docs/ at pages of the site."""
    if page.file.src_uri in PAGES:
        markdown = markdown.replace("](docs/", "](")
    if page.file.src_uri in DETAILS:
        page.meta["search"] = {"exclude": True}

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
