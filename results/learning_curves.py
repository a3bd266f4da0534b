"""Plots of learning curves over seeds, beside published returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
from matplotlib import figure as figures
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from results.published import Figure

OURS, TARGET, PEERS = "#1f5fbf", "#b3261e", "#8a8f98"
COLORS = OURS, "#c2570c"  # By algorithm.
LABEL_HEIGHT = 0.065  # Of the panel's height.


class Curves(TypedDict):
    """Learning curves: environment steps of the evaluations [N], mean returns [seeds, N]."""

    steps: list[int]
    returns: list[list[float]]


def plot_learning_curves(
    path: Path, title: str, curves: Curves, peers: Sequence[Figure], target: Figure | None
) -> None:
    """Plots the mean over seeds, their range, each seed, and published returns as lines.

    Args:
      path: The PNG to write.
      title: Title of the plot.
      curves: Our learning curves.
      peers: Published returns.
      target: The return to reach.
    """
    num_seeds = len(curves["returns"])
    # Without pyplot, which would need a display and keep the figure in memory.
    figure = figures.Figure(figsize=(7, 3.6), layout="constrained")
    panel = figure.add_subplot()
    _plot_curves(panel, curves, curves["steps"])
    _plot_published(panel, peers, target)
    figure.suptitle(
        f"{title}, {num_seeds} seed{'s' * (num_seeds > 1)}: mean, range and each", fontsize="medium"
    )
    panel.set_xlabel("environment steps")
    panel.set_ylabel("evaluation return")
    panel.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    panel.locator_params(axis="x", nbins=6)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.margins(x=0.02)
    panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def plot_algorithms(path: Path, tasks: Mapping[str, Mapping[str, tuple[Curves, float]]]) -> None:
    """Plots curves of algorithms over environment steps and over minutes, a row of panels per task.

    Args:
      path: The PNG to write.
      tasks: For each task, curves and environment steps per second by algorithm.
    """
    figure = figures.Figure(figsize=(8, 3.2 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False, sharey="row")
    for (over_steps, over_minutes), (task, algorithms) in zip(panels, tasks.items(), strict=True):
        for color, (name, (curves, steps_per_second)) in zip(
            COLORS, algorithms.items(), strict=False
        ):
            steps = np.array(curves["steps"], np.float64)  # [N]
            _plot_curves(over_steps, curves, steps, color, name)
            _plot_curves(over_minutes, curves, steps / steps_per_second / 60, color, name)
        over_steps.set(
            xscale="log", xlabel="environment steps", ylabel="evaluation return", title=task
        )
        over_minutes.set(xscale="log", xlabel="minutes")
        over_minutes.legend()
    for panel in panels.flat:
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def short_steps(steps: int) -> str:
    """Abbreviates a number of steps: 1M, 1.5M, 100k, 500."""
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if steps >= unit:
            return f"{steps / unit:.3g}{letter}"
    return str(steps)


def _plot_curves(
    panel: Axes, curves: Curves, x: ArrayLike, color: str = OURS, label: str | None = None
) -> None:
    """Plots mean, range and each seed of curves over x [N]."""
    returns = np.array(curves["returns"], np.float64)  # [seeds, N]
    low, high, mean = returns.min(axis=0), returns.max(axis=0), returns.mean(axis=0)  # [N]
    panel.plot(x, returns.T, color=color, linewidth=0.6, alpha=0.45)
    panel.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    panel.plot(x, mean, color=color, linewidth=2, marker="o", markersize=3, label=label)


def _plot_published(panel: Axes, peers: Sequence[Figure], target: Figure | None) -> None:
    """Plots horizontal lines, dotted of off-policy algorithms, with labels that do not overlap."""
    lines = [
        (peer.mean, f"{peer.source} {_label(peer)}", PEERS, ":" if peer.off_policy else "-")
        for peer in peers
        if peer != target
    ]
    if target is not None:
        lines.append((target.mean, f"target: {target.source} {_label(target)}", TARGET, "--"))
    for height, _, color, style in lines:
        panel.axhline(height, color=color, linewidth=1.1, linestyle=style, zorder=1)
    low, high = panel.get_ylim()
    lines.sort(key=lambda line: line[0])
    heights = _separate([(line[0] - low) / (high - low) for line in lines], LABEL_HEIGHT)
    for height, (_, label, color, _) in zip(heights, lines, strict=True):
        panel.text(
            1.01,
            height,
            label,
            color=color,
            fontsize="small",
            va="center",
            transform=panel.transAxes,
        )


def _label(figure: Figure) -> str:
    return f"{figure.mean:,g} ({short_steps(figure.steps)})"


def _separate(heights: Sequence[float], gap: float) -> list[float]:
    """Moves ascending heights no more than needed for them to be at least `gap` apart."""
    # Groups of heights that are too close; each group is spread around its mean.
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _spread(groups[-2], gap)[-1] + gap > _spread(groups[-1], gap)[0]:
            last = groups.pop()
            groups[-1] += last
    return [height for group in groups for height in _spread(group, gap)]


def _spread(group: Sequence[float], gap: float) -> list[float]:
    middle = sum(group) / len(group)
    return [middle + gap * (index - (len(group) - 1) / 2) for index in range(len(group))]
