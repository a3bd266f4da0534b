"""The pages of the documentation, and their code blocks."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
# Of other languages than these, nothing is known; `text` is what programs print.
LANGUAGES = {"python", "sh", "console", "yaml", "json", "text"}

EXEMPTION = re.compile(r"<!-- not run: (.+) -->")
FENCE = re.compile(r"(\s*)(`{3,})(\w*)(.*)")
TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """A code block.

    Attributes:
      line: Its first line in the page.
      language: What follows the fence.
      title: The file that it is, empty if it is none.
      text: Its lines.
      exemption: The reason why it is not run, empty if it is.
    """

    line: int
    language: str
    title: str
    text: str
    exemption: str


def blocks(markdown):
    """The code blocks of a page, in order."""
    found, lines, before = [], iter(enumerate(markdown.splitlines(), 1)), ""
    for number, line in lines:
        opening = FENCE.fullmatch(line)
        if not opening:
            before = line.strip() or before
            continue
        indent, fence, language, attributes = opening.groups()
        inside = []
        for _, inner in lines:
            if inner.strip() == fence:
                break
            inside.append(inner.removeprefix(indent))
        title, exemption = TITLE.search(attributes), EXEMPTION.fullmatch(before)
        text = "".join(f"{each}\n" for each in inside)
        found.append(
            Block(
                number, language, title[1] if title else "", text, exemption[1] if exemption else ""
            )
        )
        before = ""
    return found


def command_lines(block):
    """The commands in a block: all lines of `sh`, those after a prompt in `console`."""
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.startswith("#")]
