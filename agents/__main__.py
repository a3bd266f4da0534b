"""The command `agents` as a module: `python -m agents train` is `agents train`."""

from agents.scripts.main import main

if __name__ == "__main__":
    main()
