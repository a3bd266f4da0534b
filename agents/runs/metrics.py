"""The metrics of a run: metrics.jsonl and TensorBoard event files."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agents.runs.append_file import AppendFile
from agents.runs.event_files import EventFile, remove_events_after
from agents.runs.metrics_file import read_metrics, remove_lines_after
from agents.types import PlainData

if TYPE_CHECKING:
    from agents.runs.run_directory import RunDirectory
    from agents.runs.wandb_tracker import WandbTracker
    from agents.vector.restarts import Restart


# Tags in the events of evaluation, where they differ from those in metrics.jsonl: TensorBoard draws
# the values of all folders that have one tag in one chart.
_EVENT_TAGS = {"eval/return_mean": "episode/return", "eval/length_mean": "episode/length"}


class Metrics:
    """Writes the metrics of a run. Steps are environment steps.

    What the disk has no room for is kept and written later, see `AppendFile`.
    """

    def __init__(
        self,
        run: RunDirectory,
        step: int,
        tracker: WandbTracker | None = None,
        logged: int = 0,
        evaluated: int = 0,
    ):
        """Opens the files, and removes records of steps after `step` of an earlier process.

        A resumed run repeats those steps and would report them twice. Earlier records that are
        missing issue a warning.

        Args:
          run: The run.
          step: The step that training continues from.
          tracker: Another receiver of the metrics.
          logged: Step that metrics and events of training reach unless some were lost.
          evaluated: Step that events of evaluation reach unless some were lost.
        """
        self._tracker = tracker
        is_complete = remove_lines_after(run.metrics_file, step)
        steps = [row["step"] for row in read_metrics(run.metrics_file)]
        _warn_of_loss(run.metrics_file, int(max(steps, default=0)), logged)
        for folder, expected in ((run.train_events, logged), (run.eval_events, evaluated)):
            _warn_of_loss(folder, remove_events_after(folder, step), expected)
        self._folder = run.path
        self._lines = AppendFile(run.metrics_file, b"" if is_complete else b"\n")
        self._restarts = AppendFile(run.restarts_file, creates=False)
        self._train = EventFile(run.train_events)
        self._eval = EventFile(run.eval_events)

    def scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes scalars by tag as one line of metrics.jsonl and as events.

        Tags that start with `eval/` have an event file of their own, where the means of returns and
        lengths have the tags of those of training. JSON has no NaN and no infinities; the line has
        null instead.
        """
        now = time.time()
        values = {tag: float(value) for tag, value in scalars.items()}
        line = {tag: value if math.isfinite(value) else None for tag, value in values.items()}
        text = json.dumps({"step": step, "wall_time": now, **line}, allow_nan=False)
        self._lines.append(text.encode() + b"\n")
        for file, is_eval in ((self._train, False), (self._eval, True)):
            chosen = {
                _EVENT_TAGS.get(tag, tag): value
                for tag, value in values.items()
                if tag.startswith("eval/") == is_eval and tag != "eval/episodes"
            }
            if chosen:
                file.scalars(step, chosen, now)
        if self._tracker:
            self._tracker.scalars(step, values)

    def restarts(self, step: int, phase: str, restarts: Sequence[Restart]) -> None:
        """Writes restarts of environments as lines of restarts.jsonl, with their causes.

        Args:
          step: Environment steps learned from so far.
          phase: What the environments run, training or evaluation.
          restarts: The restarts.
        """
        for restart in restarts:
            cause = restart.cause
            line = {
                "step": step,
                "phase": phase,
                "wall_time": restart.time,
                "environments": restart.rows,
                "cause": str(cause.args[0]),
                "traceback": getattr(cause, "traceback_text", ""),
            }
            self._restarts.append(json.dumps(line).encode() + b"\n")

    def has_evaluation(self, step: int) -> bool:
        """Whether an evaluation at `step` was written, by this process or an earlier one."""
        rows = read_metrics(self._lines.path)
        return any(row["step"] == step and "eval/return_mean" in row for row in rows)

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a histogram of all finite elements of each array, by tag, as an event."""
        self._train.histograms(step, arrays)
        if self._tracker:
            self._tracker.histograms(step, arrays)

    def image(self, step: int, tag: str, png: bytes) -> None:
        """Writes a PNG image of evaluation for TensorBoard's images page."""
        self._eval.image(step, tag, png)

    def video(self, step: int, tag: str, path: Path) -> None:
        """Gives the tracker a video of the run's folder."""
        if self._tracker:
            self._tracker.video(step, tag, path)

    def config(self, settings: Mapping[str, PlainData], command: str = "") -> None:
        """Writes the configuration for TensorBoard's text page and its HParams page.

        Args:
          settings: The values by name.
          command: The command that trains, if there is one.
        """
        rows = "\n".join(f"| {name} | {value} |" for name, value in settings.items())
        self._train.text(0, "configuration", f"| setting | value |\n|:-|:-|\n{rows}")
        if command:
            self._train.text(0, "command", f"```\n{command}\n```")
        write_hyperparameters(self._folder, settings)
        if self._tracker:
            self._tracker.config(settings)

    def graph(self, graph_def: bytes) -> None:
        """Writes a graph for TensorBoard's graph page, as an encoded `GraphDef`."""
        self._train.graph(graph_def)

    def close(self) -> None:
        """Writes what the disk had no room for before, and closes the files."""
        self._lines.close()
        self._restarts.close()
        self._train.close()
        self._eval.close()


def _warn_of_loss(path: Path, last: int, expected: int) -> None:
    """Warns if records from before the step that a run resumes from are missing."""
    if last < expected:
        warnings.warn(
            f"{path} ends at step {last:,}, expected at least {expected:,}: records were lost\n"
            "training goes on, and its curves have a gap",
            stacklevel=4,
        )


def write_hyperparameters(folder: Path, settings: Mapping[str, PlainData]) -> None:
    """Writes a run's settings as an event file, in place of an earlier one.

    TensorBoard finds the metrics in the folders below, and which settings differ between runs.

    Args:
      folder: Folder of the run.
      settings: The values by name. Lists and dictionaries are shown as JSON.
    """
    from tensorboard.plugins.hparams import summary_v2  # Without Keras, unlike `api`.

    if not folder.is_dir():
        return  # It was moved: no other one is made.
    for path in folder.glob("events.out.tfevents.*"):
        path.unlink()
    shown = {
        name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
        for name, value in settings.items()
    }
    file = EventFile(folder)
    file.summary(0, summary_v2.hparams_pb(shown, trial_id=folder.name))
    file.close()
