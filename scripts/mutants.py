"""Changes the library in small ways, and lists changes that no test notices: `python scripts/mutants.py`."""

import sys
from pathlib import Path

# The packages `agents` and `tests` of this checkout, from any working directory.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.mutation.command import main

if __name__ == "__main__":
    sys.exit(main())
