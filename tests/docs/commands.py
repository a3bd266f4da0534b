"""The commands in code blocks: found, parsed by the library's own parsers, and run where that is quick."""

import importlib
import shlex
from typing import NamedTuple

from agents.scripts.main import COMMANDS, dispatch
from agents.settings.config_file import load_config
from agents.settings.parser import parse_command

# Programs that are not ours.
OTHERS = {"apt-get", "cd", "curl", "git", "pip", "python", "source", "tensorboard"}
SCRIPTS = {"benchmark.py", "check", "docs", "faults.py", "results.py", "test"}

TINY = [
    "--steps=200", "--num-envs=2", "--rollout-length=50", "--minibatch-size=50", "--epochs=1",
    "--eval-interval=200", "--eval-episodes=2", "--log-interval=200", "--histogram-interval=0",
    "--checkpoint-interval=200",
]  # fmt: skip
SMALL = {
    "num_envs": 2, "rollout_length": 50, "minibatch_size": 50, "epochs": 1, "steps": 200,
    "eval_interval": 100, "eval_episodes": 2, "log_interval": 100, "histogram_interval": 0,
    "checkpoint_interval": 200,
}  # fmt: skip


def short_config(name="pendulum", **overrides):
    """In place of `agents.load_config`: short trainings."""
    return load_config(name, **{**overrides, **SMALL})


class Command(NamedTuple):
    """A command of this library: its name, as in `agents train`, and its arguments."""

    name: str
    arguments: list[str]


def find_command(line):
    """The library's command in a line; None for other programs that are known.

    Raises:
      ValueError: The program is unknown.
    """
    words = shlex.split(line)
    while words and "=" in words[0] and not words[0].startswith("-"):
        words.pop(0)  # Variables of the environment.
    program, *arguments = words
    name = program.rpartition("/")[2]
    if name == "agents":
        return Command(arguments[0], arguments[1:])
    if name == "train" and program.startswith("scripts/"):
        return Command(name, arguments)
    if name == "python" and arguments[0] == "-m" and arguments[1].startswith("agents.scripts."):
        return Command(arguments[1].rpartition(".")[2], arguments[2:])
    if name in OTHERS or (program.startswith("scripts/") and name in SCRIPTS):
        return None
    raise ValueError(f"unknown program in {line!r}")


def options_of(name):
    """The model of a command's own options, and that of settings; None without."""
    module = importlib.import_module(f"agents.scripts.{name}")
    options = getattr(module, f"{name.capitalize()}Options", None)
    return options, getattr(options, "settings", None)


def parse(command):
    """Parses a command with its own parser, and validates its settings.

    Raises:
      UsageError, SystemExit: As the command does.
    """
    assert command.name in COMMANDS or command.name.startswith("-"), command
    if command.name not in COMMANDS or {"--help", "--help=all", "--version"} & set(
        command.arguments
    ):
        return
    model, settings = options_of(command.name)
    if model is None or "--list" in command.arguments:
        dispatch([command.name, *command.arguments])
        return
    options, overrides = parse_command(
        model, command.arguments, program=command.name, settings=settings
    )
    if settings and not getattr(options, "timestamp", None):
        load_config(getattr(options, "config", None) or "default", **overrides)


def run(command, modules, trains):
    """Runs a command with its own parser's result, where that is quick.

    Args:
      command: A command that parses.
      modules: Modules that the page has written. Training of what they define is described; others'
        is not.
      trains: Whether to run the former, for a few steps, and to describe the latter.
    """
    if command.name == "train":
        if {"--help", "--list", "--timestamp"} & {
            word.partition("=")[0] for word in command.arguments
        }:
            return
        own = any(f"={module}:" in word for word in command.arguments for module in modules)
        short = TINY if own and trains else []
        if own or trains:
            dispatch(["train", *command.arguments, *(short or ["--dry-run"])])
    elif command.name == "export" or command.name == "--help":
        dispatch([command.name, *command.arguments])
