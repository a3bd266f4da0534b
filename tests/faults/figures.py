"""The figures that the harnesses of this folder reach, for FAULTS.md."""

import json
import os

# Where to append them, one JSON object a line; `scripts/faults.py` sets it.
FILE = "AGENTS_FAULT_FIGURES"


def record(harness, **figures):
    """Records figures by name, numbers or short texts; no effect unless they are collected.

    Args:
      harness: Its name, the first column of FAULTS.md.
      **figures: What was counted and measured.
    """
    path = os.environ.get(FILE)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"harness": harness, **figures}) + "\n")
