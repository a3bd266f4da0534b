"""Gymnasium's environments in worker processes and in the training process."""

from __future__ import annotations

from agents.backends import process


class Backend(process.Backend):
    """Spreads environments over worker processes and this one, which would otherwise wait.

    The number of processes counts it. Faster for light environments, most of all where cores are
    few or busy; but what hangs or crashes in this process ends the run.
    """

    _inline_share = True
