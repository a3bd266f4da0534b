"""On what a benchmark ran."""

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
    """Numbers of the processors that this process may run on."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def machine() -> str:
    """Cores, processor, kernel and Python, in one line."""
    parts = [f"{len(cores())} cores", _cpu_model(), f"{platform.system()} {platform.release()}"]
    return ", ".join([*parts, f"Python {platform.python_version()}"])


def versions() -> dict[str, str]:
    """Versions of the packages that are compared, or what they run on; those that are missing are left out."""
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
