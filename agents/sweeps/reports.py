"""The results of a sweep: lines for the console, a table, results.csv and sweep.png."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Mapping, Sequence

from agents.regular_files import write_atomically
from agents.settings.validation import as_text
from agents.sweeps.picture import draw_sweep
from agents.sweeps.sweep import Sweep
from agents.sweeps.trial_result import COMPLETE, TrialResult, best_first
from agents.types import PlainData

MAX_COLUMNS = 5  # Of the table: it fits into 80 characters.

_DIGITS = 3  # Of settings on the console.


def write_reports(sweep: Sweep) -> None:
    """Writes results.csv and sweep.png into the sweep's folder; a failure issues a warning."""
    with sweep.exclusive():
        results = sweep.results()
        try:
            write_atomically(sweep.path / "results.csv", csv_text(results).encode())
            image = draw_sweep(results, sweep.space, sweep.study.importances(), sweep.path.name)
            write_atomically(sweep.path / "sweep.png", image)
        except OSError as error:
            warnings.warn(f"can't write to {sweep.path} ({error.strerror})", stacklevel=2)


def csv_text(results: Sequence[TrialResult]) -> str:
    """Returns a table as CSV, with a line for each trial, best first."""
    names = _setting_names(results)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", "score", "step", *names, "run", "cause"])
    for result in best_first(results):
        settings = [
            as_text(result.settings[name]) if name in result.settings else "" for name in names
        ]
        score = "" if result.score is None else repr(result.score)
        head = [result.number, result.state, score, result.step]
        writer.writerow([*head, *settings, result.name, result.cause])
    return text.getvalue()


def table(results: Sequence[TrialResult]) -> list[str]:
    """Returns lines of a table with the settings of the best trials side by side."""
    shown = [result for result in best_first(results) if result.score is not None][:MAX_COLUMNS]
    rows = [
        ["", *(result.name for result in shown)],
        ["score", *(_score(result) for result in shown)],
        ["state", *(result.state for result in shown)],
    ]
    for name in _setting_names(shown):
        rows.append([name, *(as_text(result.settings.get(name, ""), _DIGITS) for result in shown)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


def describe_settings(settings: Mapping[str, PlainData]) -> str:
    """Returns settings in one line: `learning_rate 0.001, layers 64,64`."""
    return ", ".join(f"{name} {as_text(value, _DIGITS)}" for name, value in settings.items())


def describe_result(results: Sequence[TrialResult], number: int) -> str:
    """Returns a line about a trial that has ended, and the best one so far."""
    result = results[number]
    line = f"Trial {number} {result.state}"
    if result.score is not None:
        line += f" with score {_score(result)} at step {result.step:,}"
    if result.cause:
        line += f": {result.cause}"
    best = best_trial(results)
    return line if best is None else f"{line} (best: {_score(best)} of trial {best.number})"


def best_trial(results: Sequence[TrialResult]) -> TrialResult | None:
    """Returns the complete trial with the highest score; None before there is one."""
    ordered = best_first(results)
    return ordered[0] if ordered and ordered[0].state == COMPLETE else None


def _setting_names(results: Sequence[TrialResult]) -> list[str]:
    return list(dict.fromkeys(name for result in results for name in result.settings))


def _score(result: TrialResult) -> str:
    return f"{result.score:.1f}"
