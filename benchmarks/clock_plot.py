"""Plot of scores over wall clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.case import OURS
from benchmarks.clock_runs import Run
from benchmarks.colors import OUR_COLOR, PEER_COLORS


def plot_scores(runs: Sequence[Run]) -> Figure:
    """Plots a panel per environment: medians over seeds, with a band from minimum to maximum."""
    envs = list(dict.fromkeys(run.env for run in runs))
    peers = list(dict.fromkeys(run.contestant for run in runs if run.contestant != OURS))
    colors = {OURS: OUR_COLOR, **dict(zip(peers, PEER_COLORS, strict=False))}
    columns = min(len(envs), 2) or 1
    rows = -(-len(envs) // columns) or 1
    # Without pyplot, which would need a display and keep the figure in memory.
    plot = Figure(figsize=(4.5 * columns + 0.5, 3.2 * rows + 0.5), layout="constrained")
    panels = plot.subplots(rows, columns, squeeze=False).flat
    for panel, env in zip(panels, envs, strict=False):
        _plot_env(panel, env, [run for run in runs if run.env == env], colors)
    for panel in list(panels)[len(envs) :]:
        panel.set_axis_off()
    return plot


def _plot_env(panel: Axes, env: str, runs: Sequence[Run], colors: dict[str, str]) -> None:
    for name, color in colors.items():
        own = [run for run in runs if run.contestant == name]
        if not own:
            continue
        minutes, scores = scores_over_time(own)
        label = f"{name}, {len(own)} seed{'s' if len(own) > 1 else ''}"
        panel.plot(minutes, np.median(scores, axis=0), color=color, label=label)
        panel.fill_between(minutes, scores.min(axis=0), scores.max(axis=0), color=color, alpha=0.15)
    panel.set_title(env, fontsize="medium", loc="left")
    panel.set_xlabel("minutes since the start of the process")
    panel.set_ylabel("training return")
    panel.set_xlim(left=0)
    panel.legend(frameon=False, fontsize="small")
    panel.spines[["top", "right"]].set_visible(False)


def scores_over_time(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Returns minutes [P] and scores [runs, P] at the P times at which every run has a score."""
    scores = np.array(
        [[np.nan if point.score is None else point.score for point in run.points] for run in runs]
    )  # [runs, points]
    complete = ~np.isnan(scores).any(axis=0)  # [points]
    minutes = np.array([point.seconds / 60 for point in runs[0].points])
    return minutes[complete], scores[:, complete]
