"""The tables of names and defaults agree with the settings, the presets and the command line's hints."""

import re
from pathlib import Path

import pytest

from agents.settings.config import Config
from agents.settings.config_file import load_config
from agents.settings.peer_names import hint

PAGE = Path(__file__).parents[2] / "docs/guides/coming-from.md"


def rows():
    """Preset, their name, setting, default here and value in the preset, of each row."""
    preset = ""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[2:3] == ["setting"]:
            preset = re.search("`(.*)`", cells[4])[1]
        elif not line.startswith("|") or cells[:1] == ["there"]:
            preset = ""
        elif preset and not cells[0].startswith(":-"):
            yield preset, cells[0].strip("`"), cells[2].strip("`"), cells[3], cells[4]


def shown(value):
    """A setting's value as the page writes it, for comparisons."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else float(value)


def read(cell):
    return float(cell) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell) else cell


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: f"{row[0]}-{row[1]}")
def test_values_and_hints_are_those_of_config_and_preset(row):
    preset, theirs, setting, default, in_preset = row
    known = Config.model_fields
    if default != "-":
        assert read(default) == shown(known[setting].default)
        assert read(in_preset) == shown(getattr(load_config(preset), setting))
    if re.fullmatch(r"[a-z_]+", theirs) and setting in known and theirs not in known:
        assert hint(theirs, known, str) == f"; did you mean {setting}?"


def test_every_library_has_a_table():
    assert {preset for preset, *_ in rows()} == {
        "sb3",
        "cleanrl_continuous",
        "skrl",
        "batch_ppo",
        "sac",
    }


def test_our_defaults_beside_those_of_tf_agents():
    text = PAGE.read_text().partition("## TF-Agents")[2].partition("## Keras")[0]
    found = re.findall(r"^\| `\w+` \| \S+ \| `(\w+)` \| (\S+) \|", text, re.MULTILINE)
    assert len(found) == 19
    for setting, default in found:
        assert read(default) == shown(Config.model_fields[setting].default), setting
