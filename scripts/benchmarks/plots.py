"""A picture of every suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.case import LIMIT, OURS
from benchmarks.report import number
from benchmarks.summary import peers

OUR_COLOR, PEER_COLOR, LIMIT_COLOR = "#1f5fbf", "#a9b0bb", "#c0392b"
LINE_STYLES = {"tf": "-", "process": "--"}


def draw(suite: str, title: str, results: Mapping[str, Any], folder: Path) -> Path:
    """Draws a suite to `<folder>/<suite>.png`: lines over the number of environments for scaling, bars for the rest."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = _scaling(results) if suite == "scaling" else _bars(results)
    figure.suptitle(title)
    path = folder / f"{suite}.png"
    figure.savefig(path, dpi=120)
    return path


def _bars(results: Mapping[str, Any]) -> Figure:
    """A panel for each case, with a bar for each contestant from its median and a whisker from minimum to maximum."""
    names = [[OURS, *_shown(peers(entry))] for entry in results.values()]
    heights = [0.35 * len(each) + 0.9 for each in names]
    # Not pyplot: that would look for a display, and keep the figure.
    figure = Figure(figsize=(9, sum(heights) + 0.5), layout="constrained")
    grid = figure.subplots(len(results), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for panel, contestants, (case, entry) in zip(grid, names, results.items(), strict=True):
        figures = [entry[name] for name in contestants]
        medians = [each["median"] for each in figures]
        spread = [
            [each["median"] - each["min"] for each in figures],
            [each["max"] - each["median"] for each in figures],
        ]
        colors = [OUR_COLOR if name == OURS else PEER_COLOR for name in contestants]
        bars = panel.barh(contestants, medians, xerr=spread, color=colors, error_kw={"elinewidth": 1, "capsize": 2})
        panel.bar_label(bars, [number(median) for median in medians], padding=6, fontsize="small")
        if LIMIT in entry:
            panel.axvline(entry[LIMIT], color=LIMIT_COLOR, linewidth=1, linestyle=":", label=LIMIT)
            panel.legend(frameon=False, fontsize="small", loc="lower right")
        panel.set_title(f"{case} [{entry[OURS]['unit']}]", fontsize="medium", loc="left")
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _shown(names: Sequence[str]) -> list[str]:
    """Without peers that are there once more as the better of their variants."""
    return [name for name in names if not any(other.startswith(f"{name}-") for other in names)]


def _scaling(results: Mapping[str, Any]) -> Figure:
    """Lines over the number of environments, one for each backend and number of cores."""
    lines: dict[tuple[str, str], list[tuple[int, Mapping[str, Any]]]] = {}
    for case, entry in results.items():
        _, backend, num_envs = case.split("/")
        for name in (OURS, *peers(entry)):
            lines.setdefault((backend, name), []).append((int(num_envs), entry[name]))
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    panel = figure.subplots()
    for (backend, name), points in lines.items():
        sizes, figures = zip(*sorted(points, key=lambda point: point[0]), strict=True)
        medians = [each["median"] for each in figures]
        color = OUR_COLOR if name == OURS else None
        label = f"{backend}, {'all cores' if name == OURS else name}"
        panel.plot(sizes, medians, LINE_STYLES.get(backend, ":"), color=color, marker="o", markersize=4, label=label)
        panel.fill_between(
            sizes, [each["min"] for each in figures], [each["max"] for each in figures], color=color, alpha=0.15
        )
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    panel.yaxis.set_major_formatter(lambda rate, _: f"{rate:,.0f}")
    panel.set_xlabel("environments")
    panel.set_ylabel("environment steps a second")
    panel.set_ylim(bottom=0)
    panel.legend(frameon=False)
    panel.spines[["top", "right"]].set_visible(False)
    return figure
