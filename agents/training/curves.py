"""The learning curves of a run, as an image."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.regular_files import write_atomically

# Losses that tell whether learning works, with their titles, by tag. Not the policy loss, which
# does not fall as a policy improves.
LOSSES = {
    "losses/value": "value loss",
    "losses/explained_variance": "explained variance of the value",
    "losses/entropy": "entropy of the policy [nats]",
    "losses/approx_kl": "KL divergence of an update [nats]",
    "losses/clip_fraction": "fraction of clipped samples",
    "losses/gradient_norm": "norm of the gradient",
}
TRAINING, EVALUATION, MUTED = "#8a8f98", "#1f5fbf", "#3d4450"


def draw_curves(
    rows: Sequence[Mapping[str, float]], path: Path, title: str, marked_step: int | None = None
) -> None:
    """Draws returns and losses over environment steps.

    Args:
      rows: The lines of metrics.jsonl; panels of tags that do not occur are omitted.
      path: The image to write; its suffix selects the format.
      title: The title of the image.
      marked_step: An environment step to mark, such as that of a checkpoint.

    Raises:
      OSError: The image can't be written.
    """
    losses = {tag: label for tag, label in LOSSES.items() if _series(rows, tag)[0].size}
    grid_rows = 2 + (len(losses) + 2) // 3  # The returns are twice as high as the losses.
    # Without pyplot, which looks for a display and keeps the figure.
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
        _style(panel, ticks=8 if panel is panels[0] else 4)
        if marked_step is not None:
            panel.axvline(marked_step, color=MUTED, linewidth=0.8, linestyle=":")
    image = io.BytesIO()
    figure.savefig(image, dpi=120, format=path.suffix.removeprefix(".") or "png")
    write_atomically(path, image.getvalue())


def _draw_returns(panel: Axes, rows: Sequence[Mapping[str, float]]) -> None:
    """Draws training and evaluation returns, with the deviation over an evaluation's episodes."""
    steps, training = _series(rows, "episode/return")  # [N], [N]
    if steps.size:
        panel.plot(steps, training, color=TRAINING, linewidth=1.2, label="training episodes, mean")
    steps, mean = _series(rows, "eval/return_mean")  # [N], [N]
    if steps.size:
        _, std = _series(rows, "eval/return_std")  # [N]
        panel.plot(
            steps,
            mean,
            color=EVALUATION,
            linewidth=1.8,
            marker="o",
            markersize=3,
            label="evaluation, mean",
        )
        panel.fill_between(
            steps,
            mean - std,
            mean + std,
            color=EVALUATION,
            alpha=0.15,
            linewidth=0,
            label="one standard deviation",
        )
    panel.set_ylabel("return of an episode")
    if panel.lines:
        panel.legend(loc="best", frameon=False)


def _series(rows: Sequence[Mapping[str, float]], tag: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the steps and values of the rows that have the tag, float64 [N] each."""
    points = [(row["step"], row[tag]) for row in rows if tag in row]
    steps, values = np.array(points, np.float64).reshape(-1, 2).T  # [2, N]
    return steps, values


def _style(panel: Axes, ticks: int) -> None:
    """Labels the axis of the steps, with at most `ticks` intervals, and removes the frame."""
    panel.set_xlabel("environment steps")
    panel.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    panel.locator_params(axis="x", nbins=ticks)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.margins(x=0.02)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
