"""The picture of a sweep: scores over trials and over each setting, and what matters most."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from agents.analysis.inline_figure import InlineFigure
from agents.sweeps.search_space import Choices, SearchSpace
from agents.sweeps.trial_result import COMPLETE, PRUNED, TrialResult

SCORE, BEST, MUTED = "#1f5fbf", "#d1495b", "#8a8f98"
COLUMNS, FINE = 5, 4  # Panels of a row, and columns of the grid for each.


def draw_sweep(
    results: Sequence[TrialResult], space: SearchSpace, importances: Mapping[str, float], title: str
) -> bytes:
    """Draws the results of a sweep.

    Args:
      results: The trials.
      space: The settings that vary; a panel shows the scores over each.
      importances: Shares of settings in the differences of scores; without a panel if empty.
      title: The title of the image.

    Returns:
      The image as PNG.
    """
    names = sorted(space.dimensions, key=lambda name: -importances.get(name, 0.0))
    grid_rows = 2 + -(-len(names) // COLUMNS)  # The panels of the first row are twice as high.
    figure = InlineFigure(figsize=(16, 2.4 * grid_rows))
    figure.suptitle(title)
    inches = {"left": 0.9, "right": 15.8, "bottom": 0.4, "top": 2.4 * grid_rows - 0.5}
    grid = figure.add_gridspec(
        grid_rows,
        COLUMNS * FINE,
        **{
            side: place / (16 if side in ("left", "right") else 2.4 * grid_rows)
            for side, place in inches.items()
        },
        hspace=0.5,
        wspace=1.4,
    )
    history = figure.add_subplot(grid[:2, : 11 if importances else COLUMNS * FINE])
    _draw_history(history, results)
    if importances:
        _draw_importances(figure.add_subplot(grid[:2, 14:]), importances)
    for index, name in enumerate(names):
        place, left = 2 + index // COLUMNS, index % COLUMNS * FINE
        panel = figure.add_subplot(grid[place, left : left + FINE], sharey=history)
        _draw_setting(panel, results, name, space)
    for panel in figure.axes:
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    return figure.image(dpi=110)


def _draw_history(panel: Axes, results: Sequence[TrialResult]) -> None:
    """Draws the score of each trial, and the best one so far."""
    scored = [result for result in results if result.score is not None]
    _scatter(panel, scored, [result.number for result in scored], with_labels=True)
    complete = [
        (result.number, result.score)
        for result in results
        if result.state == COMPLETE and result.score is not None
    ]
    if complete:
        numbers, scores = np.array(complete, np.float64).T  # [N], [N]
        best = np.maximum.accumulate(scores)  # [N]
        panel.step(numbers, best, where="post", color=BEST, linewidth=1.4, label="best so far")
        # Pruned trials may be far below.
        margin = 0.08 * (best[-1] - np.min(scores)) or 1.0
        panel.set_ylim(np.min(scores) - margin, best[-1] + margin)
    panel.set_xlabel("trial")
    panel.set_ylabel("score: return of the last evaluation")
    panel.locator_params(axis="x", integer=True)
    if scored:
        panel.legend(loc="best", frameon=False)


def _draw_importances(panel: Axes, importances: Mapping[str, float]) -> None:
    """Draws a bar for each setting, the most important one at the top."""
    names = sorted(importances, key=lambda name: importances[name])
    panel.barh(names, [importances[name] for name in names], color=SCORE, height=0.6)
    panel.set_xlabel("importance (PED-ANOVA): share in what makes trials good")


def _draw_setting(
    panel: Axes, results: Sequence[TrialResult], name: str, space: SearchSpace
) -> None:
    """Draws the scores over the values of a setting."""
    scored = [result for result in results if result.score is not None and name in result.settings]
    values = [result.settings[name] for result in scored]
    dimension = space.dimensions[name]
    if isinstance(dimension, Choices):
        choices = [*map(json.dumps, dimension.choices)]
        # Minibatches of the nearest size that divides a rollout are no choice.
        choices += sorted({json.dumps(value) for value in values} - set(choices))
        values = [choices.index(json.dumps(value)) for value in values]
        labels = [choice.strip('"[]').replace(", ", ",") for choice in choices]
        panel.set_xticks(range(len(choices)), labels, fontsize="small")
        panel.set_xlim(-0.5, len(choices) - 0.5)
    else:
        panel.set_xscale("log" if dimension.log else "linear")
        spaced = np.geomspace if dimension.log else np.linspace
        ticks = spaced(dimension.low, dimension.high, 3)
        panel.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks], fontsize="small")
        panel.set_xticks([], minor=True)
        panel.axvspan(ticks[0], ticks[-1], alpha=0)  # Shows the whole range.
    _scatter(panel, scored, values)
    panel.set_title(name, fontsize="medium")


def _scatter(
    panel: Axes, results: Sequence[TrialResult], places: Sequence[float], with_labels: bool = False
) -> None:
    """Draws complete trials as dots, pruned ones as crosses at their last evaluation."""
    for state, marker, color in ((COMPLETE, "o", SCORE), (PRUNED, "x", MUTED)):
        points = [
            (place, result.score)
            for place, result in zip(places, results, strict=True)
            if result.state == state
        ]
        if points:
            x, y = zip(*points, strict=True)
            label = state if with_labels else None
            panel.scatter(x, y, s=22, marker=marker, color=color, label=label)
