"""Versions of the packages that a return depends on."""

from __future__ import annotations

import importlib.metadata

from agents.environments.families import family_of

ALWAYS = ("gymnasium", "tensorflow")
DRAWING = ("imageio",)  # Of the families' packages, those that no return depends on.


def versions(env: str) -> dict[str, str]:
    """Returns the versions by package: of Gymnasium, TensorFlow, and those of the environment's family."""
    family = family_of(env)
    found = {name: importlib.metadata.version(name) for name in ALWAYS}
    for package in family.packages if family else ():
        if package not in DRAWING:
            name = _distribution(package)
            found[name] = importlib.metadata.version(name)
    return found


def _distribution(package: str) -> str:
    """Returns what installs a package: of the same name, or else the first that has it."""
    named = importlib.metadata.packages_distributions()[package]
    # Three have MuJoCo's: mujoco-core, mujoco-studio and mujoco.
    return package if package in named else named[0]
