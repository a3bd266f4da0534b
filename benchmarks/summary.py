"""Medians and ratios of the figures of all rounds."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict

import numpy as np

from agents.runs.comparison import bootstrap_interval
from benchmarks.case import LIMIT, OURS
from benchmarks.runner import Outcome

# Units of speed, where more is better, and of time; for any other unit (memory, shares, calls) the
# ratio is ours / peer. Scores have no ratio, since they may be negative.
SPEEDS, TIMES, SCORES = ("steps/s",), ("s", "ms"), ("return",)


class _Statistics(TypedDict):
    median: float
    min: float
    max: float
    unit: str


class Figure(_Statistics, total=False):
    """Statistics of a contestant over the rounds, with a `note` and medians of parts if there are."""

    note: str
    parts: dict[str, float]


# A case in the JSON file: figures by contestant, and numbers such as `ratio_PEER` and `of_limit`.
Entry: TypeAlias = dict[str, Figure | float]


def summarize(outcome: Outcome) -> Entry:
    """Summarizes a case for the JSON file.

    Ratios are medians over the rounds: for speeds and times, how many times as fast as the peer we
    are; for any other unit, our figure / the peer's.

    Returns:
      The figures of `ours` and each peer; for each `ratio_PEER`, and the ends of its 95 % bootstrap
      interval, `low_PEER` and `high_PEER`, if there are several rounds; and `limit` and `of_limit` where
      there is a limit. A peer that has variants, `SB3-DummyVecEnv` and `SB3-SubprocVecEnv`, is also
      listed as `SB3`, its better one.
    """
    unit, rounds = outcome.case.unit, dict(outcome.figures)
    limit = rounds.pop(LIMIT, None)
    figures = {
        name: describe(values, unit, outcome.notes.get(name), outcome.parts.get(name, ()))
        for name, values in rounds.items()
    }
    for name, variant in _better_variants(figures).items():
        note = f"with {variant.removeprefix(f'{name}-')}"
        note = "; ".join(filter(None, [note, outcome.notes.get(variant)]))
        figures[name] = {**figures[variant], "note": note}
        rounds[name] = rounds[variant]
    ours = rounds.pop(OURS)
    entry: Entry = {**figures}
    if unit in SCORES:
        return entry
    for name, peer in rounds.items():
        ratios = _ratios(ours, peer, unit)
        entry[f"ratio_{name}"] = round(float(np.median(ratios)), 4)
        if len(ratios) > 1:
            low, high = bootstrap_interval(ratios, functools.partial(np.median, axis=-1))
            entry[f"low_{name}"], entry[f"high_{name}"] = round(low, 4), round(high, 4)
    if limit:
        entry["limit"] = round(statistics.median(limit), 4)
        entry["of_limit"] = round(float(np.median(_ratios(ours, limit, unit))), 4)
    return entry


def describe(
    values: Sequence[float],
    unit: str,
    note: str | None = None,
    parts: Sequence[Mapping[str, float]] = (),
) -> Figure:
    """Returns the median, minimum and maximum, rounded to 4 digits, and the medians of parts."""
    figure: Figure = {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
        "unit": unit,
    }
    if note:
        figure["note"] = note
    if parts and parts[0]:
        figure["parts"] = {
            name: round(statistics.median(each[name] for each in parts), 4) for name in parts[0]
        }
    return figure


def figures_of(entry: Entry) -> dict[str, Figure]:
    """Returns the figures of a case by contestant, in the order of the JSON file with ours first."""
    figures = {name: value for name, value in entry.items() if isinstance(value, dict)}
    return {OURS: figures.pop(OURS), **figures}


def peers(entry: Entry) -> list[str]:
    """Returns the names of the peers in a case, in the order of the JSON file."""
    return [name for name in figures_of(entry) if name != OURS]


def scalar(entry: Entry, key: str) -> float | None:
    """Returns a number of a case, such as `ratio_PEER` or `of_limit`; None if it has none."""
    value = entry.get(key)
    return None if isinstance(value, dict) else value


def _better_variants(figures: Mapping[str, Figure]) -> dict[str, str]:
    """Returns the best variant of each peer that has variants."""
    variants: dict[str, list[str]] = {}
    for name in figures:
        if "-" in name and name != OURS:
            variants.setdefault(name.partition("-")[0], []).append(name)
    better = {}
    for peer, names in variants.items():
        sign = -1 if figures[names[0]]["unit"] in SPEEDS else 1
        better[peer] = min(names, key=lambda name: sign * figures[name]["median"])
    return better


def _ratios(ours: Sequence[float], peer: Sequence[float], unit: str) -> np.ndarray:
    """The ratio of each round, [rounds]."""
    ratios: np.ndarray = np.divide(ours, peer)
    return 1 / ratios if unit in TIMES else ratios
