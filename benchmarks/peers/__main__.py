"""Makes the Python environments of peers: `python -m benchmarks.peers rl_games`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.peers.installation import PEERS, VARIABLE, PeerError, folder, install


def main() -> None:
    """Runs the command."""
    rows = [
        f"  {name:16}{peer.repository} {peer.commit}" if peer.repository else f"  {name}"
        for name, peer in PEERS.items()
    ]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Makes the Python environment of a peer, in ~/.cache/agents/peers or $"
        f"{VARIABLE}, in place of one that is there.",
        epilog="\n".join(["peers, and the repositories of those that are not packages:", *rows]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument(
        "--source", type=Path, metavar="DIR", help="a clone of the peer's repository, or a mirror"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="Python of the environment (default: this one)"
    )
    options = parser.parse_args()
    try:
        install(options.peer, options.source, options.python)
    except PeerError as error:
        sys.exit(f"error: {error}")
    print(folder(options.peer))


if __name__ == "__main__":
    main()
