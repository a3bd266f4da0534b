"""Versions of the packages that a return depends on."""

from __future__ import annotations

import importlib.metadata

from agents.environments.families import family_of

# MuJoCo's say most: Humanoid-v5 walks after a million steps with version 4.0, and stumbles with 3.17.
ALWAYS = ("gymnasium", "tensorflow")


def versions(env: str) -> dict[str, str]:
    """Returns the versions by package: of Gymnasium, TensorFlow, and those of the environment's family."""
    family = family_of(env)
    imported = importlib.metadata.packages_distributions()
    found = {name: importlib.metadata.version(name) for name in ALWAYS}
    for package in family.packages if family else ():
        for name in imported.get(package, [])[:1]:
            found[name] = importlib.metadata.version(name)
    return found
