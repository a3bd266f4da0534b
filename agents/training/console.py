"""The progress of a run on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tqdm import tqdm

_BAR = "{n:,.0f} of {total:,.0f} steps |{bar:20}| {rate_fmt}{postfix}, {remaining} left"


class Console:
    """Shows a progress bar on a terminal; elsewhere, prints one line for every evaluation."""

    def __init__(self, total: int, step: int):
        """Starts at `step` of `total` environment steps."""
        self._is_terminal = sys.stderr.isatty()
        self._numbers: dict[str, str] = {}
        self._total = total
        self._bar = tqdm(
            total=total,
            initial=step,
            unit=" steps",
            disable=not self._is_terminal,
            dynamic_ncols=True,
            bar_format=_BAR,
        )

    def update(self, step: int, scalars: Mapping[str, float]) -> None:
        """Shows the environment steps so far and the latest returns among the scalars by tag."""
        names = {"episode/return": "return", "eval/return_mean": "evaluation"}
        self._numbers.update(
            {names[tag]: f"{value:.1f}" for tag, value in scalars.items() if tag in names}
        )
        if self._is_terminal:
            self._bar.set_postfix(self._numbers, refresh=False)
            self._bar.update(step - self._bar.n)

    def evaluated(self, step: int, rate: float, scalars: Mapping[str, float]) -> None:
        """Reports the scalars of an evaluation by tag; `rate` is in environment steps per second."""
        self.update(step, scalars)
        if not self._is_terminal:
            print(self._line(step, rate, scalars), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the progress bar."""
        self._bar.close()

    def _line(self, step: int, rate: float, scalars: Mapping[str, float]) -> str:
        """Returns the line of an evaluation."""
        evaluation = f"{scalars['eval/return_mean']:.1f} +- {scalars['eval/return_std']:.1f}"
        training = self._numbers.get("return", "not reported yet")
        seconds = (self._total - step) / max(rate, 1e-9)
        left = f"{seconds:.0f} s left" if step < self._total else "done"
        return (
            f"step {step:,}: evaluation {evaluation}, training episodes {training}, "
            f"{rate:,.0f} steps/s, {left}"
        )
