"""The learning curves of a run, as a figure and as an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from agents.analysis.inline_figure import InlineFigure, plain, style_panel
from agents.regular_files import write_atomically
from agents.storage.metrics_file import read_metrics
from agents.storage.run_directory import RunDirectory

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


def plot(run: RunDirectory | str | Path) -> InlineFigure:
    """Plots returns and losses of a run over environment steps, also while it is trained.

    ```python
    for score in agents.train(agents.load_config("pendulum"), logdir="logdir"):
        pass
    agents.plot(score.run)  # At the end of a notebook's cell, which shows it.
    ```

    Args:
      run: A run, or its folder.

    Returns:
      A matplotlib `Figure`; `figure.savefig("curves.png")` writes it.

    Raises:
      UsageError: There is no such run.
    """
    run = RunDirectory.of(run)
    title = f"{run.load_config().env} ({run.path.resolve().name})"
    return plot_curves(read_metrics(run.metrics_file), title)


def draw_curves(
    rows: Sequence[Mapping[str, float]], path: Path, title: str, marked_step: int | None = None
) -> None:
    """Writes the figure of `plot_curves` to an image, whose suffix selects the format.

    Raises:
      OSError: The image can't be written.
    """
    figure = plot_curves(rows, title, marked_step)
    write_atomically(path, figure.image(path.suffix, dpi=120))


def plot_curves(
    rows: Sequence[Mapping[str, float]], title: str, marked_step: int | None = None
) -> InlineFigure:
    """Plots returns and losses over environment steps.

    Args:
      rows: The lines of metrics.jsonl; panels of tags that do not occur are omitted.
      title: The title of the figure.
      marked_step: An environment step to mark, such as that of a checkpoint.
    """
    losses = {tag: label for tag, label in LOSSES.items() if _series(rows, tag)[0].size}
    grid_rows = 2 + (len(losses) + 2) // 3  # The returns are twice as high as the losses.
    figure = InlineFigure(figsize=(12, 2.4 * grid_rows), layout="constrained")
    figure.suptitle(plain(title))
    grid = figure.add_gridspec(grid_rows, 3)
    panels = [figure.add_subplot(grid[:2, :])]
    _draw_returns(panels[0], rows)
    for index, (tag, label) in enumerate(losses.items()):
        panel = figure.add_subplot(grid[2 + index // 3, index % 3])
        panel.plot(*_series(rows, tag), color=MUTED, linewidth=1.2)
        panel.set_title(label, fontsize="medium")
        panels.append(panel)
    for panel in panels:
        style_panel(panel, "environment steps", ticks=8 if panel is panels[0] else 4)
        if marked_step is not None:
            panel.axvline(marked_step, color=MUTED, linewidth=0.8, linestyle=":")
    return figure


def _draw_returns(panel: Axes, rows: Sequence[Mapping[str, float]]) -> None:
    """Draws training and evaluation returns, with the deviation over an evaluation's episodes."""
    steps, training = _series(rows, "episode/return")  # [N], [N]
    if steps.size:
        panel.plot(steps, training, color=TRAINING, linewidth=1.2, label="training episodes, mean")
    steps, mean = _series(rows, "eval/return_mean")  # [N], [N]
    if steps.size:
        panel.plot(
            steps,
            mean,
            color=EVALUATION,
            linewidth=1.8,
            marker="o",
            markersize=3,
            label="evaluation, mean",
        )
        spread = [row for row in rows if "eval/return_std" in row]  # All, unless it overflows.
        steps, mean = _series(spread, "eval/return_mean")  # [N], [N]
        _, std = _series(spread, "eval/return_std")  # [N]
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
