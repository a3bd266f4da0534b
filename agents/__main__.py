"""All commands by one name: `python -m agents train`, which is `agents train`."""

from agents.scripts.main import main

if __name__ == "__main__":
    main()
