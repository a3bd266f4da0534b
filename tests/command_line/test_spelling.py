import hypothesis
import pytest
from hypothesis import strategies
from pydantic import BaseModel

from agents.command_line.parser import parse_command
from agents.command_line.spelling import normalize, option_name
from agents.errors import UsageError
from agents.settings.config import Config


class Options(BaseModel):
    """Options."""

    logdir: str = "logs"
    dry_run: bool = False


FIELDS = {**Options.model_fields, **Config.model_fields}


def parse(*arguments):
    return parse_command(Options, arguments, program="train", settings=Config)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--num_envs=3"], ["--num-envs=3"]),
        (["--num_envs", "3"], ["--num-envs", "3"]),
        (['--env_kwargs={"a_b": 1}'], ['--env-kwargs={"a_b": 1}']),
        (["--normalize-reward"], ["--normalize-reward=true"]),
        (["--normalize_reward", "--seed=1"], ["--normalize-reward=true", "--seed=1"]),
        (["--normalize-reward", "false"], ["--normalize-reward", "false"]),
        (["--normalize-reward=false"], ["--normalize-reward=false"]),
        (["--no_such_option=a_b"], ["--no_such_option=a_b"]),
        (["--seed"], ["--seed"]),
        (["my_file", "-h"], ["my_file", "-h"]),
    ],
)
def test_options_are_taken_as_people_type_them(given, expected):
    assert normalize(given, FIELDS) == expected


@hypothesis.given(strategies.lists(strategies.text(max_size=12)))
def test_other_arguments_stay_as_they_are(arguments):
    assert normalize(arguments, FIELDS) == arguments


def test_switches_alone_and_underscores_reach_the_settings():
    options, overrides = parse("--dry_run", "--shared_torso", "--num_envs", "3")
    assert options.dry_run
    assert overrides == {"shared_torso": "true", "num_envs": "3"}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--gamma=0.9", "--discount"),
        ("--lr", "--learning-rate"),
        ("--total-timesteps=10", "--steps"),
        ("--n_envs=4", "--num-envs"),
        ("--learning-rat=1", "--learning-rate"),
    ],
)
def test_names_of_other_libraries_and_misspelled_ones_are_understood(given, meant):
    name = given.partition("=")[0]
    with pytest.raises(UsageError, match=f"^unknown setting {name}; did you mean {meant}\\?$"):
        parse(given)


def test_option_names_have_hyphens():
    assert option_name("learning_rate") == "--learning-rate"
