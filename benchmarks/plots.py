"""Plots of the suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import summary
from benchmarks.case import LIMIT, OURS
from benchmarks.clock import kept_runs
from benchmarks.clock_plot import plot_scores
from benchmarks.colors import LIMIT_COLOR, OUR_COLOR, PEER_COLOR
from benchmarks.report import format_number
from benchmarks.summary import Entry, figures_of, scalar

LINE_STYLES = {"tf": "-", "process": "--"}


def plot_suite(suite: str, title: str, results: Mapping[str, Entry], folder: Path) -> Path:
    """Plots a suite to `<folder>/<suite>.png` and returns that path.

    Scaling is plotted as lines over the number of environments, the clock as lines over minutes, any
    other suite as bars.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if suite == "clock":
        plot = plot_scores(kept_runs())
    else:
        plot = _plot_scaling(results) if suite == "scaling" else _plot_bars(results)
    plot.suptitle(title)
    path = folder / f"{suite}.png"
    plot.savefig(path, dpi=120)
    return path


def _plot_bars(results: Mapping[str, Entry]) -> Figure:
    """Plots a panel per case, with a bar per contestant from its minimum to its maximum."""
    names = [_without_better_variants([*figures_of(entry)]) for entry in results.values()]
    heights = [0.35 * len(each) + 0.9 for each in names]
    # Without pyplot, which would need a display and keep the figure in memory.
    plot = Figure(figsize=(9, sum(heights) + 0.5), layout="constrained")
    grid = plot.subplots(len(results), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for panel, contestants, (case, entry) in zip(grid[:, 0], names, results.items(), strict=True):
        _plot_case(panel, case, contestants, entry)
    return plot


def _plot_case(panel: Axes, case: str, contestants: Sequence[str], entry: Entry) -> None:
    """Plots bars of the medians, with whiskers from minimum to maximum."""
    by_name = figures_of(entry)
    figures = [by_name[name] for name in contestants]
    medians = [figure["median"] for figure in figures]
    spread = [
        [figure["median"] - figure["min"] for figure in figures],
        [figure["max"] - figure["median"] for figure in figures],
    ]
    bars = panel.barh(
        contestants,
        medians,
        xerr=spread,
        color=[OUR_COLOR if name == OURS else PEER_COLOR for name in contestants],
        error_kw={"elinewidth": 1, "capsize": 2},
    )
    panel.bar_label(bars, [format_number(each) for each in medians], padding=6, fontsize="small")
    if (limit := scalar(entry, LIMIT)) is not None:
        panel.axvline(limit, color=LIMIT_COLOR, linewidth=1, linestyle=":", label=LIMIT)
        panel.legend(frameon=False, fontsize="small", loc="lower right")
    panel.set_title(f"{case} [{by_name[OURS]['unit']}]", fontsize="medium", loc="left")
    panel.invert_yaxis()
    panel.margins(x=0.12)
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
    panel.spines[["top", "right"]].set_visible(False)


def _without_better_variants(names: Sequence[str]) -> list[str]:
    """Removes peers that repeat the better one of their variants."""
    return [name for name in names if not any(other.startswith(f"{name}-") for other in names)]


def _plot_scaling(results: Mapping[str, Entry]) -> Figure:
    """Plots lines over the number of environments, one per backend and number of cores."""
    lines: dict[tuple[str, str], list[tuple[int, summary.Figure]]] = {}
    for case, entry in results.items():
        _, backend, num_envs = case.split("/")
        for name, figure in figures_of(entry).items():
            lines.setdefault((backend, name), []).append((int(num_envs), figure))
    plot = Figure(figsize=(9, 5.5), layout="constrained")
    panel = plot.subplots()
    for (backend, name), points in lines.items():
        _plot_line(panel, backend, name, sorted(points, key=lambda point: point[0]))
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    panel.yaxis.set_major_formatter(lambda rate, _: f"{rate:,.0f}")
    panel.set_xlabel("environments")
    panel.set_ylabel("environment steps per second")
    panel.set_ylim(bottom=0)
    panel.legend(frameon=False)
    panel.spines[["top", "right"]].set_visible(False)
    return plot


def _plot_line(
    panel: Axes, backend: str, name: str, points: Sequence[tuple[int, summary.Figure]]
) -> None:
    """Plots the medians over the number of environments, with a band from minimum to maximum."""
    sizes = [size for size, _ in points]
    figures = [figure for _, figure in points]
    color = OUR_COLOR if name == OURS else None
    panel.plot(
        sizes,
        [figure["median"] for figure in figures],
        LINE_STYLES.get(backend, ":"),
        color=color,
        marker="o",
        markersize=4,
        label=f"{backend}, {'all cores' if name == OURS else name}",
    )
    lows, highs = [each["min"] for each in figures], [each["max"] for each in figures]
    panel.fill_between(sizes, lows, highs, color=color, alpha=0.15)
