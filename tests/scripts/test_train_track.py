import contextlib
import math

import pytest

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts import train as train_script
from tests.scripts.runs import small


class Recorder:
    """A tracker that keeps what it receives."""

    def __init__(self):
        self.settings, self.rows, self.tags = {}, [], set()

    def config(self, settings):
        self.settings.update(settings)

    def scalars(self, step, scalars):
        self.rows.append({"step": step, **scalars})

    def histograms(self, step, arrays):
        self.tags.update((step, tag) for tag in arrays)


def test_a_tracked_run_sends_what_it_logs(tmp_path, monkeypatch):
    recorder, ends = Recorder(), []

    @contextlib.contextmanager
    def tracker(run, folder):
        assert run.config_file.exists() and folder == run.path
        yield recorder
        ends.append(run.path)

    monkeypatch.setattr(train_script, "wandb_tracker", tracker)
    run, config = (
        RunDirectory(tmp_path),
        small(steps=600, eval_interval=400, histogram_interval=600),
    )
    scores = list(train_script.train(config, run, track="wandb"))
    assert len(scores) == 2 and ends == [tmp_path]
    assert recorder.settings["learning_rate"] == config.learning_rate
    logged = [{**row, "wall_time": 0} for row in read_metrics(run.metrics_file)]
    sent = [
        {tag: value for tag, value in row.items() if math.isfinite(value)} for row in recorder.rows
    ]
    assert [{**row, "wall_time": 0} for row in sent] == [
        {tag: pytest.approx(value) for tag, value in row.items()} for row in logged
    ]
    assert (600, "rollout/reward") in recorder.tags
