"""The command `agents`: `agents train` is `python -m agents.scripts.train`."""

from __future__ import annotations

import importlib
import os
import sys

from agents.errors import UsageError
from agents.settings.peer_names import attribute_hint
from agents.settings.reports import command_line, run, version

COMMANDS = {
    "train": "Trains an agent, evaluates it regularly, and writes checkpoints, metrics and events.",
    "visualize": "Records a run's policy: videos, scores, and learning curves.",
    "sweep": "Searches for good settings: trains trials with different settings.",
    "export": "Writes a run's policy in a format that other programs load.",
    "compare": "Compares runs over their seeds: learning curves and a table.",
    "check": "Checks an environment, and reports what to change before training.",
    "completion": "Prints a script that completes commands in bash, zsh or fish.",
}
HELP = """\
usage: agents COMMAND [--option=value ...]

Train a policy, then watch it:
  {train} --logdir=logdir --config=pendulum
  {visualize} --logdir=logdir/latest

commands:
{commands}

Options of a command: agents COMMAND --help
Versions: agents --version
Guide: docs/index.md"""


def dispatch(arguments: list[str]) -> None:
    """Runs the command that the first argument names with the others.

    Without arguments, it prints the help. That is no error: the help goes to standard output, and
    the exit code is 0.

    Raises:
      UsageError: There is no such command.
    """
    if "_ARGCOMPLETE" in os.environ:
        from agents.scripts.completion import complete

        complete()
    name, *others = arguments or ["--help"]
    if name in ("-h", "--help", "--help=all"):
        lines = "\n".join(f"  {command:<11} {text}" for command, text in COMMANDS.items())
        first = {command: command_line(command) for command in ("train", "visualize")}
        print(HELP.format(commands=lines, **first))
    elif name == "--version":
        print(version())
    elif name in COMMANDS:
        importlib.import_module(f"agents.scripts.{name}").main(others)
    else:
        hint = attribute_hint(name, COMMANDS, str) or f"; there are {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command {name}{hint}")


def main() -> None:
    """Runs a command with the arguments of this process."""
    sys.argv[0] = os.path.abspath(sys.argv[0])  # Is shown after environments changed the folder.
    run(dispatch)


if __name__ == "__main__":
    main()
