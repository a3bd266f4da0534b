"""The tables of names and defaults agree with the settings, the presets and the command line's hints."""

import re
from pathlib import Path

import pytest

from agents.settings.config import Config
from agents.settings.config_file import load_config
from agents.settings.peer_names import hint

PAGE = Path(__file__).parents[2] / "docs/guides/coming-from.md"
# A cell: the other library's name, its default, and the value here, each if it differs or is known.
CELL = re.compile(r"(?:`(?P<name>\w+)`)? ?(?P<default>[^→]*?)(?: ?→ (?P<here>.+))?")


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def table(title):
    """The rows of the first table under a heading, with the header's."""
    text = PAGE.read_text().partition(f"\n## {title}\n")[2]
    header, _, *rows = [
        cells(line) for line in re.findall(r"(?:^\|.*\n)+", text, re.M)[0].split("\n")[:-1]
    ]
    return header, rows


def presets():
    """Setting, default, preset, and the cell of the preset's library."""
    header, rows = table("Settings of PPO")
    names = [re.search("`(.*)`", title) for title in header]
    for setting, default, *others in rows:
        for name, cell in zip(names[2:], others, strict=True):
            if cell:
                yield setting.strip("`"), default, name and name[1], cell


def shown(value):
    """A setting's value as the page writes it, for comparisons."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else float(value)


def read(cell):
    return float(cell) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell) else cell


def is_shown(cell, value):
    """Whether a cell has this value; None and off are 0 or false."""
    return (
        not value if cell in ("None", "off") else read(cell.replace("True", "true")) == shown(value)
    )


@pytest.mark.parametrize("row", list(presets()), ids=lambda row: f"{row[2]}-{row[0]}")
def test_values_and_hints_are_those_of_config_and_preset(row):
    setting, default, preset, cell = row
    assert is_shown(default, Config.model_fields[setting].default)
    theirs, their_default, here = CELL.fullmatch(cell).group("name", "default", "here")
    if preset and (here or their_default):
        assert is_shown(here or their_default, getattr(load_config(preset), setting))
    if theirs and theirs not in Config.model_fields:
        assert re.match(rf"; did you mean {setting}[?,]", hint(theirs, Config.model_fields, str))


@pytest.mark.parametrize("row", [row for row in presets() if not row[2]], ids=lambda row: row[0])
def test_values_without_a_preset_can_be_set(row):
    setting, _, _, cell = row
    default, here = CELL.fullmatch(cell).group("default", "here")
    name, _, value = (here or default).strip("`").rpartition(": ")
    load_config("default", **{name or setting: value.lower()})


def test_every_library_has_a_column():
    rows = list(presets())
    libraries = {"sb3", "cleanrl_continuous", "skrl", None}
    assert {preset for _, _, preset, _ in rows} == libraries
    assert len(rows) >= 65


def test_settings_of_the_preset_sac():
    _, rows = table("Settings of SAC")
    assert len(rows) > 12
    for setting, value, *others in rows:
        setting = setting.strip("`")
        assert is_shown(value, getattr(load_config("sac"), setting)), setting
        for theirs in filter(None, (CELL.fullmatch(cell)["name"] for cell in others)):
            # Some names mean another setting in PPO.
            assert theirs in Config.model_fields or hint(theirs, Config.model_fields, str), theirs
