"""The distribution that provides the package `agents`, and the installation of its extras.

openai-agents and batch-ppo (distribution `agents`) also have a package of this name. pip mixes
packages of one name in one folder, and the last installed one replaces the other's `__init__.py`. The
command `agents` checks its own import, see `batch_agents.py`.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

DISTRIBUTION = "batch-agents"  # On the package index. The name `agents` is another project's.

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_HOME = os.path.dirname(_PACKAGE)  # A folder of installed packages, or a checkout.


def install_command(extra: str) -> str:
    """Returns the command that installs an extra into this Python's environment.

    An editable installation stays one.
    """
    requirement = f"{DISTRIBUTION}[{extra}]"
    if os.path.isfile(os.path.join(_HOME, "pyproject.toml")):
        checkout = "." if os.path.samefile(_HOME, os.curdir) else _HOME
        requirement = f"{checkout}[{extra}]"
    return f"{_pip()} install {'-e ' if requirement[0] in './' else ''}'{requirement}'"


def check_package(init_file: str | None) -> None:
    """Checks that no other package `agents` is anywhere on `sys.path`, or inside this library's.

    Takes a tenth of a millisecond unless there is another one.

    Args:
      init_file: The `__init__.py` that Python imports as `agents`; None if there is none.

    Raises:
      ImportError: There is another one. The message names its place and the remedy.
    """
    if init_file is None:
        raise ImportError(
            f"{_PACKAGE} has no __init__.py; another package 'agents' may have removed it\n"
            f"install {DISTRIBUTION} again"
        )
    found = [init_file, *(os.path.join(place, "agents", "__init__.py") for place in sys.path)]
    for file in found:
        if os.path.isfile(file) and not _is_ours(file):
            _refuse(os.path.dirname(os.path.abspath(file)))
    if _is_mixed():
        _refuse(_PACKAGE)


def _is_ours(init_file: str) -> bool:
    """Returns whether an `__init__.py` is that of this library, of any version and in any place."""
    with open(init_file, "rb") as file:
        return b"agents.settings.installation" in file.read()


def _is_mixed() -> bool:
    """Returns whether another distribution has installed files into this library's folder."""
    from agents.version import __version__

    name = f"{DISTRIBUTION.replace('-', '_')}-{__version__}.dist-info"
    try:
        with open(os.path.join(_HOME, name, "RECORD"), encoding="utf-8") as file:
            paths = [line.split(",")[0].split("/") for line in file]
    except OSError:
        return False  # A checkout, in which pip installs nothing.
    ours = {"__pycache__", *(path[1] for path in paths if path[0] == "agents" and path[1:])}
    return not ours.issuperset(os.listdir(_PACKAGE)) and _distribution_in(_PACKAGE) is not None


def _refuse(folder: str) -> NoReturn:
    """Raises the error about another package `agents` in `folder`."""
    other = _distribution_in(folder)
    if other is None:
        raise ImportError(
            f"another package 'agents' lies in {folder}, on sys.path with that of {DISTRIBUTION}\n"
            "rename its folder, or start Python in another folder and without it in PYTHONPATH"
        )
    again = f", and install {DISTRIBUTION} again" if folder == _PACKAGE else ""
    raise ImportError(
        f"another package 'agents' is installed: that of {other}, in {folder}\n"
        f"install it and {DISTRIBUTION} into different environments, "
        f"or {_pip()} uninstall {other.partition(' ')[0]}{again}"
    )


def _distribution_in(folder: str) -> str | None:
    """Returns name and version of another distribution with files in a folder `agents`."""
    import importlib.metadata

    for distribution in importlib.metadata.distributions(path=[os.path.dirname(folder)]):
        files = distribution.files or ()
        if distribution.name != DISTRIBUTION and any(file.parts[0] == "agents" for file in files):
            return f"{distribution.name} {distribution.version}"
    return None


def _pip() -> str:
    """Returns pip of this Python as users call it."""
    import shutil  # Takes longer to import than everything else here.

    scripts = os.path.dirname(sys.executable)
    if shutil.which("pip") == os.path.join(scripts, "pip"):
        return "pip"
    return f"{sys.executable} -m pip"
