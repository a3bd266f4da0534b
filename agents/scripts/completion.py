"""Prints what completes commands in a shell: `python -m agents.scripts.completion bash`."""

from __future__ import annotations

import argparse
import importlib

from pydantic import BaseModel

from agents.command_line.completion import SHELLS, Options, completion_script, options_of
from agents.command_line.reports import run
from agents.scripts.main import COMMANDS

EXAMPLES = """\
examples:
  source <(agents completion bash)  # In this shell; add it to ~/.bashrc for all.
  agents completion zsh >> ~/.zshrc
  agents completion fish > ~/.config/fish/completions/agents.fish"""


def main(arguments: list[str]) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="agents completion",
        description="Prints a script with which a shell completes commands, options and presets.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)
    shell = parser.parse_args(arguments).shell
    options = {name: _options(name) for name in COMMANDS if name != "completion"}
    print(completion_script(shell, COMMANDS, options), end="")


def _options(command: str) -> Options:
    """Returns the options of a command: its module has them as a model, which names the settings."""
    module = importlib.import_module(f"agents.scripts.{command}")
    model: type[BaseModel] = getattr(module, f"{command.capitalize()}Options")
    settings: type[BaseModel] | None = getattr(model, "settings", None)
    return options_of(model, *([settings] if settings else []))


if __name__ == "__main__":
    run(main)
