"""Trains presets over seeds and writes RESULTS.md: `python scripts/results.py pendulum --seeds=10`."""

import sys
from pathlib import Path

# The packages `agents` and `results` of this checkout, from any working directory.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agents.errors import UsageError
from results.command import main

if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        sys.exit(f"error: {error}")
