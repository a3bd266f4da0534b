import re
import signal
import warnings
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from agents.errors import (
    EnvironmentFailure,
    EnvironmentRaisedError,
    NonFiniteError,
    UsageError,
)
from agents.settings.command_line import option_name, parse_command, report_error, run
from agents.settings.config import Config
from agents.settings.config_file import load_config
from agents.stop_signals import StopRequested


class TrainOptions(BaseModel):
    """Trains an agent."""

    logdir: Path = Field(description="Directory for runs.")
    config: str = Field("pendulum", description="Preset or path.")
    timestamp: str | None = Field(None, description="Start of the run's name.")


class VisualizeOptions(BaseModel):
    """Makes videos: 100 % of them."""

    logdir: Path = Field(description="Run.")
    outdir: Path = Field(description="Directory for videos.")
    episodes: int = Field(10, ge=1, description="Length (episodes).")
    checkpoint: Literal["best", "last"] | int = Field(
        "last", description="Which checkpoint; a number of steps."
    )


def train(*arguments):
    return parse_command(
        TrainOptions,
        arguments,
        program="python -m train",
        settings=Config,
        examples="examples:\n  train --logdir=x",
    )


def visualize(*arguments):
    return parse_command(VisualizeOptions, arguments, program="python -m visualize")


def refused(command, *arguments):
    with pytest.raises(UsageError) as caught:
        command(*arguments)
    assert len(str(caught.value).splitlines()) <= 3
    return str(caught.value)


def printed_help(command, capsys, monkeypatch, columns=100):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as caught:
        command("--help")
    assert caught.value.code == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_only_settings_that_were_given_are_overrides():
    options, overrides = train("--logdir=runs")
    assert options == TrainOptions(logdir=Path("runs"))
    assert overrides == {}


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--learning-rate=1e-3"], {"learning_rate": 1e-3}),
        (["--learning-rate", "1e-3"], {"learning_rate": 1e-3}),
        (["--normalize-reward=false"], {"normalize_reward": False}),
        (["--normalize-reward", "True"], {"normalize_reward": True}),
        (["--layers=64,32"], {"layers": (64, 32)}),
        (["--layers", "64, 32"], {"layers": (64, 32)}),
        (["--layers=[64, 32]"], {"layers": (64, 32)}),
        (["--layers=7"], {"layers": (7,)}),
        (["--layers="], {"layers": ()}),
        (['--env-kwargs={"g": 9.81}'], {"env_kwargs": {"g": 9.81}}),
        (
            ["--env-kwargs", '{"a": [1, "x,y", null, {"b": "\\"}"}]}'],
            {"env_kwargs": {"a": [1, "x,y", None, {"b": '"}'}]}},
        ),
        (["--steps=1e6"], {"steps": 1_000_000}),
        (["--initial-log-std=-1e-1"], {"initial_log_std": -0.1}),
        (["--initial-log-std", "-1"], {"initial_log_std": -1.0}),
        (["--seed=1", "--seed=2"], {"seed": 2}),
        (["--env=null"], {"env": "null"}),
    ],
)
def test_overrides_replace_settings_of_a_preset(arguments, expected):
    _, overrides = train("--logdir=runs", *arguments)
    assert overrides.keys() == expected.keys()
    config = load_config("cartpole", **overrides)
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    "argument, message",
    [
        (
            "--layers=64,x",
            "layers: expected a list such as [64, 64], each item an integer from 1 to 65536, got '64,x'",
        ),
        (
            "--env-kwargs=g=9.81",
            "env_kwargs: expected a dictionary of plain data such as {\"g\": 9.81}, got 'g=9.81'",
        ),
        (
            "--env-kwargs={g: 9.81}",
            "env_kwargs: expected a dictionary of plain data such as {\"g\": 9.81}, got '{g: 9.81}'",
        ),
        ("--learning-rate=", "learning_rate: expected a number above 0 and at most 1, got ''"),
    ],
)
def test_wrong_values_are_reported_by_load_config(argument, message):
    _, overrides = train("--logdir=runs", argument)
    with pytest.raises(UsageError) as caught:
        load_config(**overrides)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--learing-rate=1"], "unknown setting --learing-rate; did you mean --learning-rate?"),
        (["--learing-rate", "1"], "unknown setting --learing-rate; did you mean --learning-rate?"),
        (["--learning_rate=1"], "unknown setting --learning_rate; did you mean --learning-rate?"),
        (["--learn=1"], "unknown setting --learn; did you mean --learning-rate?"),
        (["-logdir=x"], "unknown setting -logdir; did you mean --logdir?"),
        (["--hlep"], "unknown setting --hlep; did you mean --help?"),
        (["--xyzzy"], "unknown setting --xyzzy"),
        (["cartpole"], "unexpected argument 'cartpole'; settings are given as --setting=value"),
        (
            ["--layers", "64", "64"],
            "unexpected argument '64'; settings are given as --setting=value",
        ),
        (
            ["--normalize-reward"],
            "--normalize-reward needs a value; write --normalize-reward=VALUE",
        ),
        (
            ["--initial-log-std", "-x"],
            "--initial-log-std needs a value; write --initial-log-std=VALUE",
        ),
    ],
)
def test_unknown_arguments(arguments, message):
    assert refused(train, "--logdir=x", *arguments) == message


def test_required_options():
    assert refused(train) == "--logdir is required"
    assert refused(visualize).splitlines() == ["--logdir is required", "--outdir is required"]


def test_a_command_without_settings():
    arguments = ["--logdir=run", "--outdir=videos", "--episodes=3"]
    options, overrides = visualize(*arguments)
    assert options == VisualizeOptions(logdir=Path("run"), outdir=Path("videos"), episodes=3)
    assert overrides == {}
    assert visualize(*arguments, "--checkpoint=best")[0].checkpoint == "best"
    assert visualize(*arguments, "--checkpoint=5000")[0].checkpoint == 5000
    message = "--checkpoint: expected one of best, last or an integer, got 'first'"
    assert refused(visualize, *arguments, "--checkpoint=first") == message
    assert (
        refused(visualize, *arguments, "--episodes=0")
        == "--episodes: expected an integer of 1 or more, got '0'"
    )
    assert refused(visualize, *arguments, "--seed=0") == "unknown setting --seed"


def test_help_shows_every_setting(capsys, monkeypatch):
    text = printed_help(train, capsys, monkeypatch)
    flat = " ".join(text.split())
    for name, field in {**TrainOptions.model_fields, **Config.model_fields}.items():
        assert f"  {option_name(name)} " in text
        assert field.description in flat
    assert text.startswith(
        "usage: python -m train --logdir=PATH [--setting=value ...]\n\nTrains an agent.\n"
    )
    assert text.endswith("examples:\n  train --logdir=x\n")
    titles = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "options:",
        "environment:",
        "algorithm:",
        "network:",
        "normalization:",
        "duration, evaluation and logging:",
        "reproducibility and resources:",
        "examples:",
    ]


def test_help_is_readable(capsys, monkeypatch):
    text = printed_help(train, capsys, monkeypatch)
    assert max(map(len, text.splitlines())) <= 100
    assert text.isascii()
    assert not re.search(r"\(default:$", text, re.MULTILINE)
    for noise in (
        "Annotated",
        "JsonValue",
        "Literal",
        "PydanticUndefined",
        "factory",
        "NoneType",
        "dict[",
        "tuple[",
    ):
        assert noise not in text
    for line in (
        r"-h, --help +Prints this help\. --logdir",
        r"--learning-rate FLOAT +Initial learning rate; [^-]+ \(default: 0.0003\)",
        r"--layers INT,\.\.\. +Units of [^-]+ \(default: 64,64\)",
        r"--env-kwargs JSON +Keyword arguments [^-]+ \(default: {}\)",
        r"--value-layers INT,\.\.\. [^(]+ layers\. --shared-torso",
        r"--normalize-reward true\|false [^-]+ \(default: true\)",
        r"--logdir PATH +Directory for runs. \(required\)",
        r"--timestamp TEXT +Start of the run's name\. environment:",
    ):
        assert re.search(line, " ".join(text.split())), line


def test_help_of_a_command_without_settings(capsys, monkeypatch):
    text = printed_help(visualize, capsys, monkeypatch)
    assert "usage: python -m visualize --logdir=PATH --outdir=PATH [--option=value ...]" in text
    assert "100 % of them" in text
    assert "--checkpoint best|last|INT" in text
    assert "learning" not in text


def test_run_reports_usage_errors(capsys):
    def main(arguments):
        raise UsageError("first\nsecond\nthird\nfourth")

    with pytest.raises(SystemExit) as caught:
        run(main, [])
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.err == "error: first\n  second\n  third\n"
    assert captured.out == ""


@pytest.mark.filterwarnings("always")  # Elsewhere in the tests they are errors.
def test_run_prints_warnings_for_users_in_one_line(capsys):
    def main(arguments):
        warnings.warn("rewards are large", stacklevel=1)
        warnings.warn("old", FutureWarning, stacklevel=1)

    run(main, [])
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first == "warning: rewards are large"
    assert Path(second.split(":")[0]).name == "test_command_line.py" and second.endswith(
        "FutureWarning: old"
    )


def test_run_takes_the_arguments_of_the_process(monkeypatch):
    seen = []
    monkeypatch.setattr("sys.argv", ["train", "--logdir=x"])
    run(seen.append)
    assert seen == [["--logdir=x"]]


def test_run_leaves_other_errors_alone():
    with pytest.raises(ZeroDivisionError):
        run(lambda arguments: 1 / 0, [])


@pytest.mark.parametrize(
    ("error", "code", "first", "num_lines"),
    [
        (NonFiniteError("The loss is nan\nin the update"), 1, "error: The loss is nan", 2),
        (
            EnvironmentFailure("It broke", 3, 12),
            1,
            "error: It broke (environment 3, process 12)",
            1,
        ),
        (EnvironmentRaisedError("It raised", "x\n" * 99, 3, "KeyError"), 1, "error: It raised", 1),
        (KeyboardInterrupt(), 130, "Interrupted.", 1),
        (StopRequested(signal.SIGTERM), 143, "Interrupted.", 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_run_reports_all_errors_of_the_library(capsys, error, code, first, num_lines):
    def main(arguments):
        raise error

    with pytest.raises(SystemExit) as caught:
        run(main, [])
    assert caught.value.code == code
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(first) and len(lines) == num_lines


def test_hints_follow_an_error(capsys):
    error = EnvironmentFailure("\n".join(map(str, range(99))))
    assert report_error(error, "Try this", "Or this") == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: 0") and lines[-2:] == ["Try this", "Or this"]
    assert len(lines) <= 9
