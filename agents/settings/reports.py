"""Reports of commands: errors, warnings, exit codes."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from agents import stop_signals
from agents.errors import (
    LEARNER_LOST,
    USAGE_ERROR,
    EnvironmentFailure,
    InvalidActionError,
    LearnerLostError,
    NonFiniteError,
    RunLostError,
    UsageError,
    describe_error,
    printable_lines,
    show_warning,
)
from agents.settings import current_folder
from agents.version import __version__

_MAX_LINES = 9  # Of errors; a run has printed one or two lines before.


def run(main: Callable[[list[str]], object], arguments: Sequence[str] | None = None) -> None:
    """Calls the main function of a command; prints errors of this library without traceback.

    Args:
      main: A function of the command's arguments.
      arguments: The arguments after the command's name; by default this process's.

    Raises:
      SystemExit: With the exit code of `report_error`, after any of its errors.
    """
    current_folder.begin_command()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _LastingStream):  # None in a daemon.
            setattr(sys, name, _LastingStream(stream))
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            main(sys.argv[1:] if arguments is None else list(arguments))
    except (
        UsageError,
        EnvironmentFailure,
        InvalidActionError,
        LearnerLostError,
        NonFiniteError,
        RunLostError,
        KeyboardInterrupt,
    ) as error:
        raise SystemExit(report_error(error)) from None


class _LastingStream:
    """A standard stream that drops text once its terminal or pipe is closed.

    The command may still have a checkpoint to save.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def report_error(error: BaseException, *hints: str) -> int:
    """Prints an error and what to do about it to standard error.

    A `UsageError` has at most three lines, other errors and their hints have at most nine.

    Args:
      error: One of those that `run` handles.
      *hints: Lines that follow.

    Returns:
      The exit code of the command: 2 for a `UsageError`, 128 + the number of a signal, 75 for
      a `LearnerLostError`, else 1.
    """
    if isinstance(error, KeyboardInterrupt):
        lines = ["Interrupted."]
    else:
        max_lines = 3 if isinstance(error, UsageError) else _MAX_LINES - len(hints)
        lines = describe_error(error, max_lines)
        lines = [f"error: {lines[0] if lines else type(error).__name__}", *lines[1:]]
        lines[1:] = [f"  {line}" for line in lines[1:]]
    say(*lines, *hints, file=sys.stderr)
    return exit_code(error)


def say(*lines: str, file: TextIO | None = None) -> None:
    """Prints lines that may hold texts of files or environments, see `printable_lines`."""
    print(*map(printable_lines, lines), sep="\n", file=file)


def exit_code(error: BaseException) -> int:
    """Returns the exit code of a command that an error has ended, see `report_error`."""
    if isinstance(error, KeyboardInterrupt):
        return stop_signals.exit_code(error)
    if isinstance(error, UsageError):
        return USAGE_ERROR
    return LEARNER_LOST if isinstance(error, LearnerLostError) else 1


def interpreter() -> str:
    """Returns this Python as users call it: `python` if that finds it, otherwise its path."""
    found = shutil.which("python")
    return "python" if found and Path(found) == Path(sys.executable) else sys.executable


def command_line(name: str) -> str:
    """Returns a command as users call it: `agents train` where they have called it like that."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("agents", "__main__.py"):
        return f"{interpreter()} -m agents {name}"
    if called.name != "agents":
        return f"{interpreter()} -m agents.scripts.{name}"
    found = shutil.which("agents")
    shown = "agents" if found and os.path.samefile(found, called) else called
    return f"{shown} {name}"


def version() -> str:
    """Returns the versions of this library and of the packages that its numbers depend on."""
    others = []
    for name in ("tensorflow", "keras", "gymnasium", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # Such as a nightly.
            others.append(f"{name} {importlib.metadata.version(name)}")
    others.append(f"Python {platform.python_version()}")
    return f"agents {__version__} ({', '.join(others)})"
