"""Lines by which training processes tell of finished episodes; imports the standard library only."""

from __future__ import annotations

import re

# As CleanRL's programs print them.
_LINE = re.compile(r"global_step=(\d+), episodic_return=\[?\s*([-+.\deE]+)")


def episode_line(steps: int, score: float) -> str:
    """Returns the line that tells of a finished episode.

    Args:
      steps: Environment steps of the training so far.
      score: Its return, before any normalization or clipping of rewards.
    """
    return f"global_step={steps}, episodic_return={score!r}"


def read_episode(line: str) -> tuple[int, float] | None:
    """Returns the steps and the score of a line; None if it tells of no episode."""
    match = _LINE.search(line)
    return (int(match[1]), float(match[2])) if match else None
