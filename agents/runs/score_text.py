"""Scores as text, for the console and for tables."""

from __future__ import annotations

from collections.abc import Mapping

from agents.types import PlainData


def score_text(mean: float, std: float | None = None) -> str:
    """Formats a score: one decimal, or three if it is below 10, as a share of successes.

    Args:
      mean: The score.
      std: Its standard deviation, if it is to be shown.
    """
    decimals = 1 if abs(mean) >= 10 else 3
    spread = "" if std is None else f" +- {std:.{decimals}f}"
    return f"{mean:.{decimals}f}{spread}"


def info_texts(scores: Mapping[str, PlainData], prefix: str) -> list[str]:
    """Returns texts such as "success 0.500" of the scores whose names begin with a prefix."""
    return [
        f"{name.removeprefix(prefix)} {score_text(value)}"
        for name, value in scores.items()
        if name.startswith(prefix)
    ]
