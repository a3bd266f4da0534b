"""The figures that the harnesses of this folder reach, for FAULTS.md."""

import json
import os

import pytest

# Where to append them, one JSON object a line; `scripts/faults.py` sets it.
FILE = "AGENTS_FAULT_FIGURES"


def record(harness: str, **figures: object) -> None:
    """Records figures by name, numbers or short texts; no effect unless they are collected.

    Args:
      harness: Its name, the first column of FAULTS.md.
      **figures: What was counted and measured.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    append({"harness": harness, "test": test, "figures": figures})


def append(entry: dict[str, object]) -> None:
    """Appends a line to the file of figures, if they are collected."""
    path = os.environ.get(FILE)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def few_and_many(name: str, few: int, many: int) -> pytest.MarkDecorator:
    """Runs a harness with few cases, and in a slow test with many."""
    return pytest.mark.parametrize(name, [few, pytest.param(many, marks=pytest.mark.slow)])
