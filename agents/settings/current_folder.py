"""The current folder as a source of modules: the last one, and only for modules that users name.

Folders may be downloaded: a `numpy.py` in one must not replace the installed one, and modules that a
downloaded run names must not be executed because they lie there. So a command searches the folder
in which it was started only for a module that settings name and that is not found elsewhere. Modules
that a run names are found there if the user has named them before, in a command or in Python.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_folder = ""  # In which the command was started; empty where Python code uses this library.
_is_searched = False  # Whether it is the last entry of `sys.path`.

# A variable with the names of this process's records, for processes that it starts: a read-only home
# does not keep them.
NAMED = "AGENTS_NAMED_MODULES"


def begin_command() -> None:
    """Makes the current folder that in which `search` lets modules be found."""
    global _folder
    with contextlib.suppress(OSError):  # It was deleted.
        _folder = os.getcwd()


def search() -> bool:
    """Appends the folder of a command to `sys.path`; returns False if that changes nothing."""
    global _is_searched
    if not _folder or _folder in sys.path:
        return False
    sys.path.append(_folder)
    importlib.invalidate_caches()
    _is_searched = True
    return True


@contextlib.contextmanager
def hidden(is_hidden: bool) -> Iterator[None]:
    """Finds no modules in the current folder, unless `PYTHONPATH` or an installation names it."""
    before = list(sys.path)
    if is_hidden:
        entries = ["", _folder] if _is_searched else [""]
        sys.path[:] = [entry for entry in before if entry not in entries]
    try:
        yield
    finally:
        if is_hidden:
            sys.path[:] = before


def remember(module: str) -> None:
    """Records that the user has named a module of the current folder.

    The record is an empty file in the user's own folder `~/.local/state/agents/modules`.
    """
    name = _record(module)
    os.environ[NAMED] = " ".join(sorted({name, *os.environ.get(NAMED, "").split()}))
    with contextlib.suppress(OSError, RuntimeError):  # There is no home.
        folder = _folder_of_records()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).touch(mode=0o600)


def is_named(module: str) -> bool:
    """Returns whether the user has named a module of the current folder, now or earlier."""
    name = _record(module)
    if name in os.environ.get(NAMED, "").split():
        return True
    with contextlib.suppress(OSError, RuntimeError):
        return (_folder_of_records() / name).lstat().st_uid == os.geteuid()
    return False


def contains(module: str) -> bool:
    """Returns whether an imported module lies in the current folder itself."""
    spec = getattr(sys.modules.get(_top(module)), "__spec__", None)
    places = [*(spec.submodule_search_locations or ()), spec.origin] if spec else []
    folder = os.path.realpath(_folder or os.curdir)
    return any(place and os.path.dirname(os.path.realpath(place)) == folder for place in places)


def _record(module: str) -> str:
    """Returns the name of the file that records a module named by the user."""
    name = f"{os.path.realpath(_folder or os.curdir)}\0{_top(module)}"
    return hashlib.sha256(os.fsencode(name)).hexdigest()


def _folder_of_records() -> Path:
    home = os.environ.get("XDG_STATE_HOME", "")
    root = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
    return root / "agents" / "modules"


def _top(module: str) -> str:
    return module.partition(".")[0]
