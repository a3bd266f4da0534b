"""Requests to stop this process, as by SIGINT and SIGTERM."""

from __future__ import annotations

# Whether a stop was requested.
requested = False


class StopRequested(KeyboardInterrupt):
    """A signal asked this process to stop."""


def check() -> None:
    """Raises StopRequested if a stop was requested.

    For loops that wait or step environments, in any thread; takes tens of nanoseconds.
    """
    if requested:
        raise StopRequested
