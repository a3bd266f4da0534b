"""Draws how the returns of several seeds rise, beside what others published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from published import Figure as Published

OURS, TARGET, PEERS = "#1f5fbf", "#b3261e", "#8a8f98"


def draw_learning_curves(
    path: Path,
    title: str,
    steps: Sequence[int],
    returns: Sequence[Sequence[float]],
    peers: dict[str, Published],
    target: Published | None,
) -> None:
    """Draws the mean over seeds, their range, each seed, and others' figures as horizontal lines.

    Args:
      path: The image to write, a small PNG.
      title: Stands above it.
      steps: Environment steps of the evaluations, [N].
      returns: Mean return of each evaluation, [seeds, N].
      peers: What others published, by source.
      target: What is to be reached.
    """
    curves = np.array(returns, np.float64)  # [seeds, N]
    # Not pyplot: that would look for a display, and keep the figure.
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    panel = figure.add_subplot()
    panel.plot(steps, curves.T, color=OURS, linewidth=0.6, alpha=0.45)
    panel.fill_between(steps, curves.min(axis=0), curves.max(axis=0), color=OURS, alpha=0.15, linewidth=0)
    panel.plot(steps, curves.mean(axis=0), color=OURS, linewidth=2, marker="o", markersize=3)
    lines = [(published.mean, f"{who} {_told(published)}", PEERS, "-") for who, published in peers.items()]
    if target is not None:
        lines.append((target.mean, f"target {_told(target)}", TARGET, "--"))
    for height, _, color, style in lines:
        panel.axhline(height, color=color, linewidth=1.1, linestyle=style, zorder=1)
    low, high = panel.get_ylim()
    lines.sort(key=lambda line: line[0])
    places = _apart([(line[0] - low) / (high - low) for line in lines], 0.065)
    for place, (_, label, color, _) in zip(places, lines, strict=True):
        panel.text(1.01, place, label, color=color, fontsize="small", va="center", transform=panel.transAxes)
    figure.suptitle(f"{title}, {len(curves)} seed{'s' * (len(curves) > 1)}: mean, range and each", fontsize="medium")
    panel.set_xlabel("environment steps")
    panel.set_ylabel("return of an evaluation")
    panel.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    panel.locator_params(axis="x", nbins=6)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.margins(x=0.02)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    figure.savefig(path, dpi=100)


def _told(figure: Published) -> str:
    return f"{figure.mean:,g} ({short_steps(figure.steps)})"


def short_steps(steps: int) -> str:
    """A number of steps in few letters: 1M, 1.5M, 100k, 500."""
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if steps >= unit:
            return f"{steps / unit:.3g}{letter}"
    return str(steps)


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Heights in ascending order, moved no more than needed for labels of height `gap` not to overlap."""
    places: list[list[float]] = []  # Groups of heights that would overlap; each is spread around its middle.
    for height in heights:
        places.append([height])
        while len(places) > 1 and _spread(places[-2], gap)[-1] + gap > _spread(places[-1], gap)[0]:
            last = places.pop()
            places[-1] += last
    return [place for group in places for place in _spread(group, gap)]


def _spread(group: Sequence[float], gap: float) -> list[float]:
    middle = sum(group) / len(group)
    return [middle + gap * (index - (len(group) - 1) / 2) for index in range(len(group))]
