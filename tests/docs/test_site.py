"""The documentation site: links, generated tables, the reference, and the whole build."""

import re
import subprocess
import sys

import pytest

import agents
from agents import tensor_envs, tools
from agents.scripts.main import COMMANDS
from agents.settings.config import Config
from agents.settings.config_file import preset_names
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


def test_tables_have_every_setting_and_every_preset():
    settings, presets = site_hooks.settings_tables(), site_hooks.presets_table()
    rows = dict(re.findall(r'^\| <a id="(\w+)"></a>`\w+` \| (.+?) \|', settings, re.MULTILINE))
    assert list(rows) == list(Config.model_fields)
    assert rows["discount"] == "number from 0 to 1"
    assert rows["layers"] == "list: integer from 1 to 65,536"
    assert rows["reduce_every"] == "`minibatch`, `epoch`"
    assert re.findall(r"^\| `(\w+)` \|", presets, re.MULTILINE) == preset_names()


def test_the_glossary_has_every_letter_and_word_of_the_docstring():
    tables = site_hooks.glossary_tables()
    letters, words = (
        dict(re.findall(r"^\| (?:`)?([^`|]+?)(?:`)? \| (.+) \|$", part, re.MULTILINE))
        for part in tables.split("## Words")
    )
    assert set("BTMNLKAOFU") < set(letters)
    assert (
        letters["B"] == "environments in a batch"
        and letters["K"] == "numbers of noise a sample takes"
    )
    assert words["iteration"] == "one rollout and the update that learns from it: one graph call"
    assert words["policy"].endswith("the setting `policy` chooses the distribution")
    assert len(words) > 20 and "recurrent state" in words


def test_every_command_has_its_options():
    sections = site_hooks.commands_tables().split("\n## agents ")[1:]
    assert [section.split()[0] for section in sections] == list(COMMANDS)
    assert (
        "| `--format` | `savedmodel`, `tflite`, `onnx` |"
        in sections[list(COMMANDS).index("export")]
    )


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
