"""Prints a script that completes commands in a shell: `python -m agents.scripts.completion bash`."""

from __future__ import annotations

import argparse
import importlib
import os

from pydantic import BaseModel

from agents.scripts.main import COMMANDS
from agents.settings.parser import make_parser
from agents.settings.reports import run

EXAMPLES = """\
examples:
  source <(agents completion bash)  # In this shell; add it to ~/.bashrc for all.
  source <(agents completion zsh)  # Likewise in ~/.zshrc, after compinit.
  agents completion fish > ~/.config/fish/completions/agents.fish"""


def main(arguments: list[str]) -> None:
    """Runs the command."""
    from argcomplete.shell_integration import shellcode

    parser = argparse.ArgumentParser(
        prog="agents completion",
        description="Prints a script with which a shell completes commands, options and presets.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    print(shellcode(["agents"], True, parser.parse_args(arguments).shell))


def complete() -> None:
    """Answers the shell, which has called the command `agents` for completions; ends the process."""
    import argcomplete

    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    typed = os.environ["COMP_LINE"].split()[1:2]
    for name, text in COMMANDS.items():
        # Importing the options of all commands takes longer than those of one.
        parents = [_command_parser(name)] if typed == [name] and name != "completion" else []
        commands.add_parser(name, help=text, parents=parents, add_help=False)
    argcomplete.autocomplete(parser)


def _command_parser(command: str) -> argparse.ArgumentParser:
    module = importlib.import_module(f"agents.scripts.{command}")
    options: type[BaseModel] = getattr(module, f"{command.capitalize()}Options")
    return make_parser(options, settings=getattr(options, "settings", None))


if __name__ == "__main__":
    run(main)
