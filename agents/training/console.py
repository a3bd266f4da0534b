"""The progress of a run: a bar on a terminal or in a notebook, lines elsewhere."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping

import tqdm
import tqdm.notebook

from agents.runs.score_text import info_texts, score_text

with warnings.catch_warnings():
    warnings.simplefilter("ignore", tqdm.TqdmWarning)  # A notebook without widgets gets lines.
    from tqdm.auto import tqdm as Bar

# Seconds that evaluations are not reported, and then between two reports: as lines, and live.
SILENT_SECONDS, REPORT_SECONDS = 10.0, 30.0
LIVE_SECONDS = 0.2


class Console:
    """Shows a progress bar on a terminal or in a notebook; elsewhere, a line per evaluation."""

    def __init__(self, total: int, step: int):
        """Starts at `step` of `total` environment steps."""
        self._is_live = sys.stderr.isatty() or issubclass(Bar, tqdm.notebook.tqdm)
        self._numbers: dict[str, str] = {}
        self._total = total
        self._bar = Bar(
            total=total,
            initial=step,
            unit=" steps",
            disable=not self._is_live,
            dynamic_ncols=True,
        )
        if self._is_live:
            self._bar.set_postfix_str("compiling")

    def move(self, step: int) -> None:
        """Moves the bar to the environment steps so far."""
        if self._is_live:
            self._bar.set_postfix(self._numbers, refresh=False)
            self._bar.update(step - self._bar.n)

    def update(self, step: int, scalars: Mapping[str, float]) -> None:
        """Shows the environment steps so far and the latest returns among the scalars by tag."""
        names = {"episode/return": "return", "eval/return_mean": "evaluation"}
        self._numbers.update(
            {names[tag]: score_text(value) for tag, value in scalars.items() if tag in names}
        )
        self.move(step)

    def evaluated(self, step: int, rate: float, scalars: Mapping[str, float]) -> None:
        """Reports the scalars of an evaluation by tag; `rate` is in environment steps per second."""
        self.update(step, scalars)
        evaluation = score_text(scalars["eval/return_mean"], scalars["eval/return_std"])
        training = self._numbers.get("return", "not reported yet")
        parts = [f"step {step:,}: evaluation {evaluation}", *info_texts(scalars, "eval/info/")]
        parts.append(f"training episodes {training}")
        if rate:  # A process that resumes may evaluate before its first step.
            parts.append(f"{rate:,.0f} steps/s")
        if step >= self._total:
            parts.append("done")
        elif rate:
            parts.append(f"{(self._total - step) / rate:.0f} s left")
        self._bar.write(", ".join(parts), file=sys.stderr)

    def evaluation(self, step: int, num_episodes: int) -> Callable[[int, int], None]:
        """Starts an evaluation, which is shown while it runs; as lines only if it takes long.

        Args:
          step: Environment steps of the training so far.
          num_episodes: Number of episodes of the evaluation.

        Returns:
          A function to call regularly with the steps of each environment so far and the number of
          finished episodes.
        """
        due = time.monotonic() + (LIVE_SECONDS if self._is_live else SILENT_SECONDS)

        def progress(steps: int, num_done: int) -> None:
            nonlocal due
            if (now := time.monotonic()) < due:
                return
            text = f"{steps:,} steps each, {num_done} of {num_episodes} episodes finished"
            if self._is_live:
                due = now + LIVE_SECONDS
                self._bar.set_postfix_str(f"evaluating: {text}")
            else:
                due = now + REPORT_SECONDS
                print(f"step {step:,}: evaluating, {text}", file=sys.stderr, flush=True)

        return progress

    def close(self) -> None:
        """Ends the progress bar."""
        self._bar.close()
