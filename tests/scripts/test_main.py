import re
import runpy
from pathlib import Path

import pytest

import agents
from agents.errors import UsageError
from agents.scripts.main import COMMANDS, dispatch
from agents.settings.reports import command_line, interpreter, run


def test_every_command_is_one_of_the_scripts(capsys):
    scripts = {path.stem for path in Path(agents.__file__).parent.glob("scripts/*.py")}
    assert set(COMMANDS) == scripts - {"__init__", "main", "learner"}  # `train` starts learners.
    for words in [*([name] for name in COMMANDS), ["train", "--config=sac"]]:
        with pytest.raises(SystemExit) as caught:
            dispatch([*words, "--help"])
        assert caught.value.code == 0
        text = capsys.readouterr().out
        assert f"usage: agents {words[0]}" in text and len(text.splitlines()) <= 40


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_lists_the_commands(arguments, capsys):
    dispatch(arguments)
    text = capsys.readouterr().out
    assert text.startswith("usage: agents COMMAND")
    assert f"  {command_line('train')} --logdir=logdir --config=pendulum\n" in text
    assert all(f"\n  {name} " in text for name in COMMANDS)


def test_the_package_is_the_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(Path(agents.__file__).parent / "__main__.py"), "--help"])
    runpy.run_module("agents", run_name="__main__")
    printed = capsys.readouterr()
    assert printed.out.startswith("usage: agents COMMAND") and printed.err == ""
    assert " -m agents train --logdir=logdir" in printed.out
    assert command_line("train") == f"{interpreter()} -m agents train"


def test_unknown_commands_are_answered_with_known_ones(capsys):
    hints = {
        "trian": "did you mean train?",
        "x": "there are train, visualize, ",
        "enjoy": "see agents.visualize",
        "tune": "run the command agents sweep",
    }
    for name, hint in hints.items():
        with pytest.raises(UsageError, match=re.escape(f"unknown command {name}; {hint}")):
            dispatch([name])


@pytest.mark.parametrize("arguments", [["--version"], ["train", "--version"]])
def test_the_version_names_what_numbers_depend_on(arguments, capsys):
    try:
        run(dispatch, arguments)
    except SystemExit as end:
        assert end.code == 0
    [line] = capsys.readouterr().out.splitlines()
    for pattern in (
        rf"^agents {agents.__version__} ",
        r"tensorflow \d",
        r"keras \d",
        r"Python 3\.",
    ):
        assert re.search(pattern, line)


def test_presets_are_listed_without_other_options(capsys):
    dispatch(["train", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["preset", "environment"]
    assert ["lunar_lander", "LunarLander-v3", "box2d"] in [line.split()[:3] for line in lines]
