"""The documentation site: links, the reference, and the whole build."""

import re
import subprocess
import sys

import pytest

import agents
from agents import tensor_envs, tools
from tests.docs.pages import PAGES, ROOT

site_hooks = pytest.importorskip("scripts.site_hooks", reason="mkdocs is not installed")

# Environments that come with the library, a module, and a dictionary.
UNLISTED = {"Acrobot", "CartPole", "MountainCarContinuous", "Pendulum", "AttrDict", "wrappers"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
REFERENCE = {
    target
    for path in ROOT.glob("docs/reference/*.md")
    for target in re.findall("::: (.+)", path.read_text())
}


def links(text):
    """Targets of the links of a page, without those in code."""
    without_code = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return [target.partition("#") for target in LINK.findall(without_code)]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_symbols(name):
    for target, _, anchor in links(PAGES[name].read_text()):
        if target.startswith(("http:", "https:")) or not target:
            continue
        path = (PAGES[name].parent / target).resolve()
        assert path.exists(), f"{name} links to {target}"
        if path.suffix == ".py" and anchor:
            assert site_hooks.line_of(path, anchor) > 0


def test_every_detail_of_ppo_is_linked_to_its_line():
    text = (ROOT / "docs/guides/ppo.md").read_text().partition("## The 37 details")[2]
    sections = re.findall(r"^### .+?(?=^### |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    rows = [re.findall(r"^\| \d+ \|.*", section, flags=re.MULTILINE) for section in sections]
    assert list(map(len, rows)) == [13, 9, 9, 5, 1, 4]
    assert all(re.search(r"\]\(\S+\.py#\S+\)", row) for section in rows for row in section)


def test_lines_are_those_of_the_symbols():
    path = ROOT / "agents/ppo/loss.py"
    lines = path.read_text().splitlines()
    assert lines[site_hooks.line_of(path, "Loss.compute") - 1].startswith("    def compute(")
    with pytest.raises(site_hooks.PluginError, match="has no Loss.missing"):
        site_hooks.line_of(path, "Loss.missing")


def test_the_reference_has_all_public_names():
    for package in (agents, tensor_envs, tools):
        for name, home in package.HOMES.items():
            assert f"{home}.{name}" in REFERENCE or name in UNLISTED, name


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_other_hosts(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True)
    for path in tmp_path.rglob("*.html"):
        loaded = re.findall(r'(?:src|<link[^>]*href)="(https?:[^"]+)', path.read_text())
        assert not loaded, path
    index = (tmp_path / "search" / "search_index.json").read_text()
    assert "kl_stop" in index and "source/agents" not in index
