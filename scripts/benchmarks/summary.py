"""From the figures of every round to medians and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.arena import Outcome
from benchmarks.case import LIMIT, OURS

# Units of speed, where more is better, and of time; of anything else (memory, shares, calls) the ratio is ours / peer.
SPEEDS, TIMES = ("steps/s",), ("s", "ms")


def summarize(outcome: Outcome) -> dict[str, Any]:
    """A case as in the JSON file.

    Returns:
      `ours` and each peer with `median`, `min`, `max`, `unit` and perhaps a `note`; `ratio_PEER` for each; and where
      there is a limit, `limit` and `of_limit`. A peer that comes in variants, `SB3-DummyVecEnv` and
      `SB3-SubprocVecEnv`, is also there as `SB3`, its better one.

      Ratios are medians over the rounds. For speeds and times they say how many times as fast as the peer we are; for
      anything else, how many times as much we take.
    """
    unit, figures = outcome.case.unit, dict(outcome.figures)
    limit = figures.pop(LIMIT, None)
    result = {name: describe(values, unit, outcome.notes.get(name)) for name, values in figures.items()}
    for name, variant in _better_variants(result).items():
        note = f"with {variant.removeprefix(f'{name}-')}"
        result[name] = {**result[variant], "note": "; ".join(filter(None, [note, outcome.notes.get(variant)]))}
        figures[name] = figures[variant]
    ours = figures.pop(OURS)
    ratios = {f"ratio_{name}": _ratio(ours, peer, unit) for name, peer in figures.items()}
    result.update({name: round(value, 4) for name, value in ratios.items()})
    if limit:
        result["limit"] = round(statistics.median(limit), 4)
        result["of_limit"] = round(_ratio(ours, limit, unit), 4)
    return result


def describe(values: Sequence[float], unit: str, note: str | None = None) -> dict[str, Any]:
    """Median, minimum and maximum."""
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    result: dict[str, Any] = {name: round(number, 4) for name, number in numbers.items()}
    return {**result, "unit": unit, **({"note": note} if note else {})}


def peers(entry: Mapping[str, Any]) -> list[str]:
    """Names of the peers in a case of the JSON file, in its order."""
    return [name for name, value in entry.items() if isinstance(value, dict) and name != OURS]


def _better_variants(result: Mapping[str, Any]) -> dict[str, str]:
    """For each peer that comes in variants, the best of them."""
    families: dict[str, list[str]] = {}
    for name in result:
        if "-" in name and name != OURS:
            families.setdefault(name.partition("-")[0], []).append(name)
    better = {}
    for family, names in families.items():
        sign = -1 if result[names[0]]["unit"] in SPEEDS else 1
        better[family] = min(names, key=lambda name: sign * result[name]["median"])
    return better


def _ratio(ours: Sequence[float], peer: Sequence[float], unit: str) -> float:
    pairs = zip(ours, peer, strict=True)
    return statistics.median(b / a if unit in TIMES else a / b for a, b in pairs)
