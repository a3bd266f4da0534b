"""All commands by one name: `agents train`, which is `python -m agents.scripts.train`."""

from __future__ import annotations

import importlib
import os
import sys

from agents.errors import UsageError
from agents.settings.reports import run, version
from agents.suggestion import did_you_mean

COMMANDS = {
    "train": "Trains an agent, evaluates it regularly, and writes checkpoints, metrics and events.",
    "visualize": "Records what a run has learned: videos, scores, and learning curves.",
    "sweep": "Searches for good settings: trains trials with different ones, and compares them.",
    "export": "Writes a run's policy in a format that other programs load.",
    "compare": "Compares runs over their seeds: learning curves, a table.",
    "check": "Checks an environment, and says what to change before it is trained on.",
    "completion": "Prints what completes these commands in bash, zsh or fish.",
}
HELP = """\
usage: agents COMMAND [--option=value ...]

{commands}

`agents COMMAND --help` lists the options of a command, `agents --version` prints versions."""


def dispatch(arguments: list[str]) -> None:
    """Runs the command that the first argument names with the others.

    Raises:
      UsageError: There is no such command.
    """
    if "_ARGCOMPLETE" in os.environ:
        from agents.scripts.completion import complete

        complete()
    name, *others = arguments or ["--help"]
    if name in ("-h", "--help"):
        lines = (f"  {command:<10} {text}" for command, text in COMMANDS.items())
        print(HELP.format(commands="\n".join(lines)))
    elif name == "--version":
        print(version())
    elif name in COMMANDS:
        importlib.import_module(f"agents.scripts.{name}").main(others)
    else:
        hint = did_you_mean(name, COMMANDS, str) or f"; there are {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command {name}{hint}")


def main() -> None:
    """Runs a command with the arguments of this process."""
    sys.argv[0] = os.path.abspath(sys.argv[0])  # Is shown after environments changed the folder.
    run(dispatch)


if __name__ == "__main__":
    main()
