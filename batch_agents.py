"""The installed command `agents`: `agents train` is `python -m agents.scripts.train`.

The library's package is `agents`. This module stands beside it, because the command has to say so if
Python would import another distribution's package of that name.
"""

import importlib.util
import os
import runpy
import sys


def main() -> None:
    """Runs the command, unless `agents` is another distribution's package."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agents", "settings")
    check_package = runpy.run_path(os.path.join(folder, "installation.py"))["check_package"]
    spec = importlib.util.find_spec("agents")
    try:
        check_package(spec.origin if spec else None)
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    from agents.scripts.main import main

    main()


if __name__ == "__main__":
    main()
