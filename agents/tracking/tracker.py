"""What receives the metrics of a run besides its own files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np


class Tracker(Protocol):
    """An experiment tracker. Steps are environment steps; none of its methods may raise."""

    def config(self, settings: Mapping[str, object]) -> None:
        """Receives the settings."""

    def scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        """Receives scalars by tag; those that are not finite, too."""

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Receives arrays of any shape by tag."""

    def video(self, step: int, tag: str, path: Path) -> None:
        """Receives a video file."""
