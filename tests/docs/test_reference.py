"""The tables of settings, presets, commands and words that `scripts/reference.py` writes."""

import re

import pytest

from agents.scripts.main import COMMANDS
from agents.settings.config import Config
from agents.settings.config_file import preset_names
from scripts import reference
from tests.docs.pages import ROOT


@pytest.mark.parametrize("name", reference.pages())
def test_pages_are_up_to_date(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == reference.pages()[name], "Run: python scripts/reference.py"


def test_tables_have_every_setting_and_every_preset():
    settings, presets = reference.settings_tables(), reference.presets_table()
    rows = dict(re.findall(r'^\| <a id="(\w+)"></a>`\w+` \| (.+?) \|', settings, re.MULTILINE))
    assert list(rows) == list(Config.model_fields)
    assert rows["discount"] == "number from 0 to 1"
    assert rows["layers"] == "list: integer from 1 to 65,536"
    assert rows["reduce_every"] == "`minibatch`, `epoch`"
    assert re.search(r"`epochs` .* Only PPO\. \|$", settings, re.MULTILINE)
    assert re.search(r"`target_rate` .* Only SAC\. \|$", settings, re.MULTILINE)
    assert not re.search(r"`discount` .* Only", settings)
    assert re.findall(r"^\| `(\w+)` \|", presets, re.MULTILINE) == preset_names()


def test_the_glossary_has_every_letter_and_word_of_the_docstring():
    tables = reference.glossary_tables()
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
    sections = reference.commands_tables().split("\n## agents ")[1:]
    assert [section.split()[0] for section in sections] == list(COMMANDS)
    assert (
        "| `--format` | `savedmodel`, `tflite`, `onnx` |"
        in sections[list(COMMANDS).index("export")]
    )
