import re
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from agents.errors import UsageError
from agents.settings.config import ALGORITHM_SETTINGS, Config
from agents.settings.config_file import load_config
from agents.settings.parser import option_name, parse_command


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


class CompareOptions(BaseModel):
    """Compares runs."""

    runs: tuple[str, ...] = Field(title="RUN", min_length=1, description="Folders of runs.")
    outdir: Path = Field(description="Directory.")


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


def compare(*arguments):
    return parse_command(CompareOptions, arguments, program="python -m compare")


def refused(command, *arguments):
    with pytest.raises(UsageError) as caught:
        command(*arguments)
    assert len(str(caught.value).splitlines()) <= 3
    return str(caught.value)


def printed_help(command, capsys, monkeypatch, *arguments):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as caught:
        command(*(arguments or ["--help=all"]))
    assert caught.value.code == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], {}),
        (["--learning-rate=1e-3"], {"learning_rate": 1e-3}),
        (["--normalize-reward=false"], {"normalize_reward": False}),
        (["--layers=64,32"], {"layers": (64, 32)}),
        (["--layers", "64, 32"], {"layers": (64, 32)}),
        (["--layers="], {"layers": ()}),
        (['--env-kwargs={"g": 9.81}'], {"env_kwargs": {"g": 9.81}}),
        (
            ["--env-kwargs", '{"a": [1, "x,y", null, {"b": "\\"}"}]}'],
            {"env_kwargs": {"a": [1, "x,y", None, {"b": '"}'}]}},
        ),
        (
            ["--env-kwargs= {g: 1e1, a: [yes, {b: null}]}"],
            {"env_kwargs": {"g": 10.0, "a": ["yes", {"b": None}]}},
        ),
        (["--steps=1e6"], {"steps": 1_000_000}),
        (["--initial-log-std=-1e-1"], {"initial_log_std": -0.1}),
        (["--initial-log-std", "-1"], {"initial_log_std": -1.0}),
        (["--seed=1", "--seed=2"], {"seed": 2}),
        (["--layers=64,32", "--layers", "16"], {"layers": (64, 32, 16)}),
        (["--env-wrappers=a:b", "--env-wrappers=c:d"], {"env_wrappers": ("a:b", "c:d")}),
        (["--info-keys=speed, lap"], {"info_keys": ("speed", "lap")}),
        (['--info-keys="speed","lap"'], {"info_keys": ("speed", "lap")}),
        (["--env_kwargs={a_b: c_d}"], {"env_kwargs": {"a_b": "c_d"}}),
        (["--num_envs", "16", "--shared_torso"], {"num_envs": 16, "shared_torso": True}),
        (["--shared-torso", "--seed=1"], {"shared_torso": True, "seed": 1}),
        (["--env=null"], {"env": "null"}),
    ],
)
def test_overrides_replace_settings_of_a_preset(arguments, expected):
    options, overrides = train("--logdir=runs", *arguments)
    assert options == TrainOptions(logdir=Path("runs"))
    assert overrides.keys() == expected.keys()
    config = load_config("cartpole", **overrides)
    assert {name: getattr(config, name) for name in expected} == expected


def test_a_space_is_missing_in_a_dictionary():
    for text, key, right in (
        ("{g:9}", "g:9", "g: 9"),
        ("{a: [1, {b: 1, g:-9.8}]}", "g:-9.8", "g: -9.8"),
        ("{g:[1]}", "g:", "g: VALUE"),
        ("{g=9}", "g=9", "g: 9"),
        ("{g}", "g", "g: VALUE"),
    ):
        hint = f"'{key}' has no value; write '{right}', with a space after the colon"
        for option in ("--env-kwargs", "--env-restarts"):
            assert refused(train, "--logdir=runs", f"{option}={text}") == f"{option}: {hint}"
    for text, expected in {
        "{g: 9}": {"g": 9},
        "{g: null, h: ''}": {"g": None, "h": ""},
        "{a: b:c, d: [e:f]}": {"a": "b:c", "d": ["e:f"]},
        "{a: http://x, b:c: '{g:9}'}": {"a": "http://x", "b:c": "{g:9}"},
    }.items():
        assert train("--logdir=runs", f"--env-kwargs={text}")[1] == {"env_kwargs": expected}


def test_unknown_arguments():
    for argument, message in {
        "--learing-rate=1": "unknown setting --learing-rate; did you mean --learning-rate?",
        "-logdir=x": "unknown setting -logdir; did you mean --logdir?",
        "--help=x": "--help: expected --help or --help=all, got 'x'",
        "--hlep": "unknown setting --hlep; did you mean --help?",
        "--no_such_option=a_b": "unknown setting --no_such_option",
        "--gamma=0.9": "unknown setting --gamma; did you mean --discount?",
        "cartpole": "unexpected argument 'cartpole'; settings are given as --setting=value",
        "--layers 64 6": "unexpected argument '6'; settings are given as --setting=value",
        "--initial-log-std -x": "--initial-log-std needs a value; write --initial-log-std=VALUE",
    }.items():
        assert refused(train, "--logdir=x", *argument.split()) == message


def test_a_command_without_settings():
    assert refused(visualize).splitlines() == [
        "--logdir is required: Run.",
        "--outdir is required: Directory for videos.",
    ]
    arguments = ["--logdir=run", "--outdir=videos", "--episodes=3"]
    options, overrides = visualize(*arguments)
    assert options == VisualizeOptions(logdir=Path("run"), outdir=Path("videos"), episodes=3)
    assert overrides == {}
    assert visualize(*arguments, "--checkpoint=best")[0].checkpoint == "best"
    assert visualize(*arguments, "--checkpoint=5000")[0].checkpoint == 5000
    for argument, message in {
        "--checkpoint=first": "--checkpoint: expected one of best, last or an integer, got 'first'",
        "--episodes=0": "--episodes: expected an integer of 1 or more, got '0'",
        "--seed=0": "python -m visualize does not take --seed",
    }.items():
        assert refused(visualize, *arguments, argument) == message


def test_arguments_without_a_name(capsys, monkeypatch):
    for arguments, runs in (
        (["a", "--outdir=x"], ("a",)),
        (["--outdir", "x", "a", "b c"], ("a", "b c")),
        (["a,b", "--outdir", "x", "[c]", "3"], ("a,b", "[c]", "3")),
    ):
        assert compare(*arguments) == (CompareOptions(runs=runs, outdir=Path("x")), {})
    for arguments, lines in (
        ([], ["RUN is required: Folders of runs.", "--outdir is required: Directory."]),
        (
            ["--logdir=a", "--outdir=b"],
            [
                "unknown setting --logdir",
                "RUN is given without an option: python -m compare RUN",
            ],
        ),
        (["a", "--runs=b", "--outdir=x"], ["unknown setting --runs"]),
        (["a", "--run=b c", "--outdir=x"], ["unknown setting --run"]),
        (
            ["a", "--env-kwargs={a: 1}", "--outdir=x"],
            ["python -m compare does not take --env-kwargs"],
        ),
        (["a", "--outdri=x"], ["unknown setting --outdri; did you mean --outdir?"]),
    ):
        assert refused(compare, *arguments).splitlines() == lines
    text = printed_help(compare, capsys, monkeypatch)
    assert text.startswith("usage: python -m compare RUN... --outdir=PATH [--option=value ...]")
    assert re.search(r"\n  RUN +Folders of runs\. \(required\)\n", text)


def test_the_short_help_shows_the_essential_settings(capsys, monkeypatch):
    for arguments, algorithm, value in (
        (["--help"], "ppo", "--env=Pendulum-v1 "),
        (["-h", "--config=cheetah"], "ppo", "--env=HalfCheetah-v5 "),
        (["--config", "sac", "--help"], "sac", "--learning-starts=10000 "),
    ):
        text = printed_help(train, capsys, monkeypatch, *arguments)
        own = Config.essentials - ALGORITHM_SETTINGS["sac" if algorithm == "ppo" else "ppo"]
        shown = set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE))
        assert shown - {"--version"} == set(map(option_name, {*TrainOptions.model_fields, *own}))
        assert value in text and "\nexamples:\n" in text
        assert text.splitlines()[-1] == "All settings: python -m train --help=all"
        assert max(map(len, text.splitlines())) <= 100 and text.isascii()
        whole = printed_help(train, capsys, monkeypatch, "--help=all", *arguments[1:])
        assert len(text.splitlines()) < len(whole.splitlines()) / 3
    assert printed_help(train, capsys, monkeypatch, "--help", "all") == printed_help(
        train, capsys, monkeypatch
    )
    # Commands without a list of essentials show all of their options.
    assert printed_help(visualize, capsys, monkeypatch, "--help") == printed_help(
        visualize, capsys, monkeypatch
    )


def test_help_shows_every_setting(capsys, monkeypatch):
    text = printed_help(train, capsys, monkeypatch)
    flat = " ".join(text.split())
    for name, field in {**TrainOptions.model_fields, **Config.model_fields}.items():
        is_shown = name not in ALGORITHM_SETTINGS["sac"]
        assert (f"  {option_name(name)} " in text) == is_shown
        assert field.description in flat or not is_shown
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
    assert not re.search(
        "Annotated|JsonValue|Literal|Pydantic|factory|NoneType|dict\\[|tuple\\[", text
    )
    for line in (
        r"-h, --help +Prints this help\. --version +Prints versions\. --logdir",
        r"--learning-rate FLOAT +Initial learning rate\. [^-]+ \(default: 0.0003\)",
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
