"""Paths that stay right when the working directory changes, as an environment may change it."""

from __future__ import annotations

import os
from pathlib import Path

from agents.errors import UsageError


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """Returns a path of a user as an absolute one; `~` is the user's home.

    Raises:
      UsageError: It is relative, and the working directory was deleted.
    """
    expanded = os.path.expanduser(path)
    try:
        return Path(expanded).absolute()
    except FileNotFoundError:
        raise UsageError(
            f"the current folder, which '{os.fspath(path)}' is relative to, does not exist any more\n"
            "change to another folder, or give an absolute path"
        ) from None
