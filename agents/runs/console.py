"""What a person sees while a run goes on."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tqdm import tqdm


class Console:
    """One live line in a terminal; plain lines elsewhere, one for every evaluation."""

    def __init__(self, total: int, step: int):
        """Starts at `step` of `total` environment steps."""
        self._live = sys.stderr.isatty()
        self._numbers: dict[str, str] = {}
        self._total = total
        self._bar = tqdm(
            total=total,
            initial=step,
            unit=" steps",
            disable=not self._live,
            dynamic_ncols=True,
            bar_format="{n:,.0f} of {total:,.0f} steps |{bar:20}| {rate_fmt}{postfix}, {remaining} left",
        )

    def update(self, step: int, scalars: Mapping[str, float]) -> None:
        """Shows how far training has come, and the newest returns in `scalars`."""
        names = {"episode/return": "return", "eval/return_mean": "evaluation"}
        self._numbers.update({names[tag]: f"{value:.1f}" for tag, value in scalars.items() if tag in names})
        if self._live:
            self._bar.set_postfix(self._numbers, refresh=False)
            self._bar.update(step - self._bar.n)

    def evaluated(self, step: int, rate: float, scalars: Mapping[str, float]) -> None:
        """Reports an evaluation; `rate` is in environment steps a second."""
        self.update(step, scalars)
        if not self._live:
            spread = f"{scalars['eval/return_mean']:.1f} +- {scalars['eval/return_std']:.1f}"
            left = f"{(self._total - step) / max(rate, 1e-9):.0f} s left" if step < self._total else "done"
            training = self._numbers.get("return", "not reported yet")
            print(
                f"step {step:,}: evaluation {spread}, training episodes {training}, {rate:,.0f} steps/s, {left}",
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Ends the live line."""
        self._bar.close()
