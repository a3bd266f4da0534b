"""The learning curves of a run, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

# What tells whether learning works, by tag; the policy's loss is left out, since it does not fall as a policy gets
# better.
LOSSES = {
    "losses/value": "value loss",
    "losses/explained_variance": "explained variance of the value",
    "losses/entropy": "entropy of the policy [nats]",
    "losses/approx_kl": "KL divergence of an update [nats]",
    "losses/clip_fraction": "fraction of clipped samples",
    "losses/gradient_norm": "norm of the gradient",
}
TRAINING, EVALUATION, MUTED = "#8a8f98", "#1f5fbf", "#3d4450"


def draw_curves(rows: Sequence[Mapping[str, float]], path: Path, title: str, marked_step: int | None = None) -> None:
    """Draws returns and losses over environment steps.

    Args:
      rows: The lines of metrics.jsonl; tags that do not occur are left out.
      path: The image to write; its suffix tells the format.
      title: Stands above it.
      marked_step: A step to be marked, as that of a checkpoint.

    Raises:
      OSError: The image can't be written.
    """
    losses = {tag: label for tag, label in LOSSES.items() if _series(rows, tag)[0].size}
    grid_rows = 2 + (len(losses) + 2) // 3  # The returns are twice as high as the losses.
    # Not pyplot: that would look for a display, and keep the figure.
    figure = Figure(figsize=(12, 2.4 * grid_rows), layout="constrained")
    figure.suptitle(title)
    grid = figure.add_gridspec(grid_rows, 3)
    panels = [figure.add_subplot(grid[:2, :])]
    _draw_returns(panels[0], rows)
    for index, (tag, label) in enumerate(losses.items()):
        panel = figure.add_subplot(grid[2 + index // 3, index % 3])
        panel.plot(*_series(rows, tag), color=MUTED, linewidth=1.2)
        panel.set_title(label, fontsize="medium")
        panels.append(panel)
    for panel in panels:
        _tidy(panel, ticks=8 if panel is panels[0] else 4)
        if marked_step is not None:
            panel.axvline(marked_step, color=MUTED, linewidth=0.8, linestyle=":")
    figure.savefig(path, dpi=120)


def _draw_returns(panel: Any, rows: Sequence[Mapping[str, float]]) -> None:
    """Training and evaluation returns; the spread is that of an evaluation's episodes."""
    steps, training = _series(rows, "episode/return")
    if steps.size:
        panel.plot(steps, training, color=TRAINING, linewidth=1.2, label="training episodes, mean")
    steps, mean = _series(rows, "eval/return_mean")
    if steps.size:
        _, std = _series(rows, "eval/return_std")
        panel.plot(steps, mean, color=EVALUATION, linewidth=1.8, marker="o", markersize=3, label="evaluation, mean")
        panel.fill_between(
            steps, mean - std, mean + std, color=EVALUATION, alpha=0.15, linewidth=0, label="one standard deviation"
        )
    panel.set_ylabel("return of an episode")
    if panel.lines:
        panel.legend(loc="best", frameon=False)


def _series(rows: Sequence[Mapping[str, float]], tag: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of the rows that have the tag, float64 [N] each."""
    points = [(row["step"], row[tag]) for row in rows if tag in row]
    steps, values = np.array(points, np.float64).reshape(-1, 2).T
    return steps, values


def _tidy(panel: Any, ticks: int) -> None:
    panel.set_xlabel("environment steps")
    panel.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    panel.locator_params(axis="x", nbins=ticks)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.margins(x=0.02)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
