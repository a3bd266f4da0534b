"""llms.txt has the format of llmstxt.org, and names only what there is."""

import re
from pathlib import Path

import agents

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "llms.txt").read_text()


def test_format():
    title, empty, summary, *_ = TEXT.splitlines()
    assert title == "# agents" and not empty and summary.startswith("> ")
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE)[-2:] == ["Docs", "Optional"]


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_guide_is_listed():
    guides = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/guides").glob("*.md")}
    assert guides - set(re.findall(r"\]\(([^)]+)\)", TEXT)) == set()


def test_public_names_are_described():
    assert [name for name in agents.__all__ if f"agents.{name}" not in TEXT] == []
