"""Figures that notebooks show, and the look that all of them share."""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.errors import printable

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
