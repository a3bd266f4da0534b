"""Versions of the packages that a return depends on, and the commit of this library."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

from agents.environments.families import family_of

ROOT = Path(__file__).parents[1]
CODE = ("--", "agents", "configs/*.yaml")  # What a return depends on in this repository.
ALWAYS = ("gymnasium", "tensorflow")
DRAWING = ("imageio",)  # Of the families' packages, those that no return depends on.


def versions(env: str) -> dict[str, str]:
    """Returns the versions by package: of this library, Gymnasium, TensorFlow, and the environment's family.

    This library's is the last commit that changed it, with `+` after changes that are not committed.
    """
    family = family_of(env)
    changed = "+" if _git("status", "--porcelain", *CODE) else ""
    found = {"agents": _git("log", "-1", "--format=%h", *CODE) + changed}
    found |= {name: importlib.metadata.version(name) for name in ALWAYS}
    for package in family.packages if family else ():
        if package not in DRAWING:
            name = _distribution(package)
            found[name] = importlib.metadata.version(name)
    return found


def _git(*words: str) -> str:
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()


def _distribution(package: str) -> str:
    """Returns what installs a package: of the same name, or else the first that has it."""
    named = importlib.metadata.packages_distributions()[package]
    # Three have MuJoCo's: mujoco-core, mujoco-studio and mujoco.
    return package if package in named else named[0]
