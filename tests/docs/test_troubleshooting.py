"""Every message that the troubleshooting page quotes is one of the sources."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guides/troubleshooting.md"
PYTHONS_OWN = {"not enough values to unpack (expected 5, got 4)"}


def messages():
    """The messages that are headings of the page, with `…` for what varies."""
    lines = PAGE.read_text().splitlines()
    headings = [line.removeprefix("### ").strip("`") for line in lines if line.startswith("### ")]
    return [heading for heading in headings if heading not in PYTHONS_OWN]


def template(node):
    """The text of a string in the sources, with `…` for its placeholders."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(template, node.values))
    if isinstance(node, ast.FormattedValue):
        return "…"
    return re.sub(r"\{[a-z_]+\}", "…", node.value) if isinstance(node.value, str) else ""


@pytest.fixture(scope="module")
def sources():
    """Lines of all strings in the sources that are not docstrings."""
    texts = []
    for path in sorted((ROOT / "agents").rglob("*.py")):
        tree = ast.parse(path.read_text())
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        strings = (ast.JoinedStr, ast.Constant)
        texts += [
            template(node)
            for node in ast.walk(tree)
            if isinstance(node, strings) and id(node) not in documentation
        ]
    return [squeezed(line) for text in texts for line in text.split("\n")]


def squeezed(text):
    return re.sub("…+", "…", text)


@pytest.mark.parametrize("message", messages())
def test_message_is_in_sources(message, sources):
    # Some messages are composed of what was expected and what was got.
    whole = squeezed(message)
    parts = [whole] if any(whole in line for line in sources) else whole.split(", got ")
    for part in parts:
        assert any(part.strip("…") in line for line in sources), f"no message has {part!r}"


def test_page_quotes_many_messages():
    assert len(messages()) > 20
    assert len(set(messages())) == len(messages())
