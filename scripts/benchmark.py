"""Measures this library and its peers: `python scripts/benchmark.py --suite=stepping --quick`."""

import sys
from pathlib import Path

# The packages `agents` and `benchmarks` of this checkout, from any working directory.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command import main

if __name__ == "__main__":
    main()
