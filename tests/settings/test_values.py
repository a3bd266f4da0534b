"""Values of settings as texts, and dictionaries of settings of their own."""

import pytest

from agents.settings import parser
from agents.settings.config import Config, Restarts
from agents.settings.config_file import load_config, save_config
from agents.settings.validation import as_text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.00012345, None, "0.00012345"),
        (0.00012345, 3, "0.000123"),
        ([64, 64], 3, "64,64"),
        ([], None, ""),
        ("tanh", None, "tanh"),
        (True, None, "true"),
        ({"size": 0.1}, 3, '{"size": 0.1}'),
    ],
)
def test_values_are_spelled_as_on_the_command_line(value, digits, text):
    assert as_text(value, digits) == text


@pytest.mark.parametrize(
    ("text", "restarts"),
    [
        ('{"limit": 3}', Restarts(limit=3, window=600)),
        ("{limit: 3, window: 30.5}", Restarts(limit=3, window=30.5)),
        ("{}", Restarts(limit=0, window=600)),
    ],
)
def test_restarts_are_parsed_saved_and_loaded(text, restarts, tmp_path):
    config = load_config("pendulum", **parse(f"--env-restarts={text}"))
    assert config.env_restarts == restarts
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    "text", ["oops", '{"limit": -1}', '{"limt": 1}', '{"limit": 1, "window": 0}']
)
def test_other_restarts_are_refused_in_one_line(text, refused):
    [line] = refused("pendulum", **parse(f"--env-restarts={text}"))
    assert line.startswith("env_restarts: expected a dictionary with limit, an integer from 0")


def parse(*arguments):
    """Returns the settings of a command line."""
    no_options = type("NoOptions", (parser.BaseModel,), {"__doc__": "No options."})
    return parser.parse_command(no_options, list(arguments), program="command", settings=Config)[1]
