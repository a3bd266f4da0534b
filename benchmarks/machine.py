"""The machine and the package versions of a benchmark."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "agents",
    "tensorflow",
    "keras",
    "gymnasium",
    "mujoco",
    "numpy",
    "stable-baselines3",
    "skrl",
    "torch",
    "envpool",
)


def cores() -> list[int]:
    """Returns the indices of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine() -> str:
    """Describes cores, processor, kernel and Python in one line."""
    parts = [f"{len(cores())} cores", _cpu_model(), f"{platform.system()} {platform.release()}"]
    return ", ".join([*parts, f"Python {platform.python_version()}"])


def load_average() -> float:
    """Returns how many processes wanted to run in the last minute, on average."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def versions() -> dict[str, str]:
    """Returns the versions of the compared packages and their dependencies that are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    for line in information.read_text().splitlines() if information.is_file() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
