"""How warnings are printed by commands and by worker processes."""

from __future__ import annotations

import sys
import warnings
from typing import TextIO

from agents.errors import printable_lines


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints a warning; one for users without the line of code that it came from.

    The arguments are those of `warnings.showwarning`, which this replaces.
    """
    text = f"warning: {message}"
    if category is not UserWarning:
        text = warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n")
    print(printable_lines(text), file=file or sys.stderr)
