"""The learning curves of groups of runs, as a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

from agents.analysis.comparison import Group
from agents.analysis.inline_figure import COLORS, MARKERS, InlineFigure, plain, style_panel
from agents.analysis.run_scores import Axis

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
    num_seeds = len(group.runs)
    seeds = f"{num_seeds} seeds" if num_seeds > 1 else "1 seed, no interval"
    seeds += "" if group.is_complete.all() else "; dotted: fewer"
    return textwrap.fill(plain(f"{group.label} ({seeds})"), _LEGEND_COLUMNS)
