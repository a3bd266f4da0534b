import pytest

from agents.command_line import parser
from agents.settings.config import Config
from agents.settings.config_file import load_config, save_config
from agents.settings.schema.field_types import Restarts


@pytest.mark.parametrize(
    ("given", "restarts"),
    [
        ({"limit": 3}, Restarts(limit=3, window=600)),
        ({"limit": 3, "window": 60}, Restarts(limit=3, window=60)),
        ({}, Restarts(limit=0, window=600)),
    ],
)
def test_restarts_are_saved_and_loaded(given, restarts, tmp_path):
    config = load_config("pendulum", env_restarts=given)
    assert config.env_restarts == restarts
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    "text", ["3", "oops", '{"limit": -1}', '{"limt": 1}', '{"limit": 1, "window": 0}', "[1, 2]"]
)
def test_other_restarts_are_refused_in_one_line(text, refused):
    [line] = refused("pendulum", **parse(f"--env-restarts={text}"))
    assert line.startswith("env_restarts: expected a dictionary with limit, an integer from 0")


def test_restarts_are_given_as_json():
    given = parse('--env-restarts={"limit": 5, "window": 30.5}')
    assert load_config("pendulum", **given).env_restarts == Restarts(limit=5, window=30.5)


def parse(*arguments):
    """The settings that a command line gives."""
    no_options = type("NoOptions", (parser.BaseModel,), {"__doc__": "No options."})
    return parser.parse_command(no_options, list(arguments), program="command", settings=Config)[1]
