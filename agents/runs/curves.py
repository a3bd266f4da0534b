"""Learning curves as figures: of a run, and of groups of runs."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from agents.errors import printable
from agents.runs.comparison import Axis, Group
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory

# Of lines, by color and marker: colors that color-blind people tell apart (Okabe and Ito, 2008,
# without their yellow, which is faint on white), and markers for those that repeat.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P")


class InlineFigure(Figure):
    """A figure made without pyplot, which needs a display and keeps figures in memory.

    A notebook shows it where it is the value of a cell, also if nothing has imported pyplot, whose
    import is what makes notebooks show matplotlib's own figures.
    """

    def image(self, suffix: str = ".png", dpi: float | str = "figure") -> bytes:
        """Returns the content of an image file.

        Args:
          suffix: Selects the format; PNG if empty.
          dpi: Pixels per inch.
        """
        content = io.BytesIO()
        self.savefig(content, dpi=dpi, format=suffix.removeprefix(".") or "png")
        return content.getvalue()

    def _repr_png_(self) -> bytes:
        """Called by IPython to display the figure."""
        return self.image()


def plain(text: str) -> str:
    """Returns a text that figures show as it is: matplotlib takes dollars for mathematics."""
    return printable(text).replace("$", r"\$")


def style_panel(panel: Axes, xlabel: str, ticks: int) -> None:
    """Labels the horizontal axis, with at most `ticks` intervals, and removes the frame."""
    panel.set_xlabel(xlabel)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    panel.locator_params(axis="x", nbins=ticks)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.margins(x=0.02)
    panel.spines[["top", "right"]].set_visible(False)


# Losses that tell whether learning works, with their titles, by tag. Not the policy loss, which
# does not fall as a policy improves.
LOSSES = {
    "losses/value": "value: loss of the value function",
    "losses/explained_variance": "explained_variance: of the value function",
    "losses/entropy": "entropy: of the policy [nats]",
    "losses/approx_kl": "approx_kl: KL divergence of an update [nats]",
    "losses/clip_fraction": "clip_fraction: fraction of clipped samples",
    "losses/gradient_norm": "gradient_norm: norm of the gradient",
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


_XLABELS: dict[Axis, str] = {"steps": "environment steps", "minutes": "minutes of training"}
# In inches: of a panel, of the labels of its horizontal axis, and of a line of its legend.
_WIDTH, _HEIGHT, _LABEL_HEIGHT, _LINE_HEIGHT = 7.5, 3.8, 0.52, 0.21
_LEGEND_COLUMNS = 78  # Characters that fit into the width of a panel.
_MAX_COLUMNS, _MAX_MARKERS = 3, 30


def plot_comparison(groups: Sequence[Group], metric: str) -> InlineFigure:
    """Plots a panel for each environment: interquartile means and 95 % intervals over seeds.

    Where not all runs of a group have a value the line is dotted.

    Args:
      groups: What `compare_runs` returns.
      metric: The label of the vertical axes.
    """
    envs = list(dict.fromkeys(group.env for group in groups))
    labels = list(dict.fromkeys(group.label for group in groups))  # With a color each.
    legends = [[_legend(group) for group in groups if group.env == env] for env in envs]
    num_columns = min(len(envs), _MAX_COLUMNS)
    num_rows = -(-len(envs) // num_columns)
    num_lines = max(sum(text.count("\n") + 1 for text in legend) for legend in legends)
    size = (_WIDTH * num_columns, (_HEIGHT + _LINE_HEIGHT * num_lines) * num_rows + 0.4)
    figure = InlineFigure(figsize=size, layout="constrained")
    figure.suptitle(
        f"{plain(metric)}: interquartile mean over seeds, 95 % bootstrap intervals",
        fontsize="medium",
    )
    for index, env in enumerate(envs):
        panel = figure.add_subplot(num_rows, num_columns, index + 1)
        for group in groups:
            if group.env == env:
                _plot_group(panel, group, labels.index(group.label))
        style_panel(panel, _XLABELS[groups[0].axis], ticks=6)
        panel.set_title(plain(env), fontsize="medium")
        panel.set_ylabel(plain(metric))
        # Below the labels of the axis, where it covers no curve.
        below = ScaledTranslation(0, -_LABEL_HEIGHT, figure.dpi_scale_trans)
        panel.legend(
            loc="upper left",
            bbox_to_anchor=(0, 0),
            bbox_transform=panel.transAxes + below,
            borderaxespad=0,
            frameon=False,
            fontsize=9,
        )
    return figure


def _plot_group(panel: Axes, group: Group, index: int) -> None:
    color, marker = COLORS[index % len(COLORS)], MARKERS[index // len(COLORS) % len(MARKERS)]
    complete = np.where(group.is_complete, group.iqm, np.nan)  # [N]
    panel.plot(group.positions, group.iqm, color=color, linewidth=1.2, linestyle=":")
    panel.plot(
        group.positions,
        complete,
        color=color,
        linewidth=1.8,
        marker=marker,
        markevery=-(-len(complete) // _MAX_MARKERS),
        markersize=3.5,
        label=_legend(group),
    )
    panel.fill_between(group.positions, group.low, group.high, color=color, alpha=0.15, linewidth=0)


def _legend(group: Group) -> str:
    """Returns the label of a group and the number of its seeds."""
    num_seeds = group.num_seeds.max()
    seeds = f"{num_seeds} seeds" if num_seeds > 1 else "1 seed, no interval"
    seeds += "" if group.is_complete.all() else "; dotted: fewer"
    return textwrap.fill(plain(f"{group.label} ({seeds})"), _LEGEND_COLUMNS)
