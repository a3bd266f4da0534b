"""Runs the fault harnesses and writes FAULTS.md: `python scripts/faults.py`."""

import sys
from pathlib import Path

# The packages `agents`, `benchmarks` and `tests` of this checkout, from any working directory.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.faults.report import main

if __name__ == "__main__":
    sys.exit(main())
