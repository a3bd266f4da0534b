import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tensorboard.plugins.hparams import plugin_data_pb2

from agents.runs.metrics import Metrics
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.settings.config import Config
from tests.runs.shown_events import events, plugin_contents, steps_of


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path)
    run.open_metrics = []
    yield run
    for metrics in run.open_metrics:
        metrics.close()


def start_metrics(run, step):
    """Metrics of a process that is killed: not closed before the end of the test."""
    metrics = Metrics(run, step)
    run.open_metrics.append(metrics)
    return metrics


def write(run, start, steps):
    metrics = start_metrics(run, start)
    metrics.config({"seed": 7, "layers": (64, 64)})
    for step in steps:
        metrics.scalars(step, {"losses/policy": np.float32(step / 8), "episode/return": -1.5})
        metrics.scalars(step, {"eval/return_mean": step + 0.5})
        metrics.histograms(step, {"rollout/reward": np.arange(step, dtype=np.float32)})


def test_lines_have_step_time_and_finite_scalars(run):
    write(run, 0, [100, 200])
    rows = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    assert rows == read_metrics(run.metrics_file)
    assert [row.pop("step") for row in rows] == [100, 100, 200, 200]
    times = [row.pop("wall_time") for row in rows]
    assert times == sorted(times) and times[0] > 1.6e9
    assert rows[2:] == [
        {"losses/policy": 25.0, "episode/return": -1.5},
        {"eval/return_mean": 200.5},
    ]
    start_metrics(run, 200).scalars(300, {"a": float("nan"), "b": -float("inf"), "c": 2.0})
    line = run.metrics_file.read_text().splitlines()[-1]
    row = json.loads(line, parse_constant=pytest.fail)  # JSON has no NaN and no infinities.
    assert (row["a"], row["b"], row["c"]) == (None, None, 2.0)


def test_tensorboard_shows_everything_of_a_process_that_was_killed(run):
    write(run, 0, [100, 200])
    train, evaluation = events(run.train_events), events(run.eval_events)
    assert set(train) == {"losses/policy", "episode/return", "rollout/reward", "configuration"}
    assert train["losses/policy"] == ("scalars", [(100, 12.5), (200, 25.0)])
    assert set(evaluation) == {"episode/return"}
    assert evaluation["episode/return"] == ("scalars", [(100, 100.5), (200, 200.5)])
    plugin, [(_, text)] = train["configuration"]
    assert plugin == "text"
    assert b"| seed | 7 |" in text.item() and b"| layers | (64, 64) |" in text.item()


def test_resuming_removes_later_steps(run):
    write(run, 0, [100, 200, 300])
    write(run, 200, [300, 400])
    steps = [row["step"] for row in read_metrics(run.metrics_file)]
    assert steps == [100, 100, 200, 200, 300, 300, 400, 400]
    assert steps_of(run.train_events, "losses/policy") == [100, 200, 300, 400]
    assert steps_of(run.train_events, "rollout/reward") == [100, 200, 300, 400]
    assert steps_of(run.eval_events, "episode/return") == [100, 200, 300, 400]


@pytest.mark.parametrize("num_bytes", [1, 40])
def test_resuming_after_an_incomplete_line(run, num_bytes):
    run.metrics_file.write_text('{"step": 100, "wall_')  # Nothing of it is left.
    write(run, 0, [100, 200])
    os.truncate(run.metrics_file, run.metrics_file.stat().st_size - num_bytes)
    complete = 3 + (num_bytes == 1)  # Without its line break the last one is still complete.
    assert len(read_metrics(run.metrics_file)) == complete
    write(run, 200, [300])
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    assert [row["step"] for row in lines] == [100, 100, 200, 200][:complete] + [300, 300]


def test_the_hparams_page_shows_all_settings_of_a_run_once(run):
    for seed in (1, 2):  # The run is resumed.
        settings = Config(seed=seed, learning_rate=1e-3, env_kwargs={"g": 9.81}).model_dump()
        start_metrics(run, 0).config(settings)
    assert len(list(run.path.glob("events.out.tfevents.*"))) == 1
    # TensorBoard finds which settings differ.
    [(tag, content)] = plugin_contents(run.path, "hparams").items()
    assert tag == "_hparams_/session_start_info"
    shown = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
    assert set(shown) == set(settings)
    assert (shown["learning_rate"].number_value, shown["seed"].number_value) == (1e-3, 2)
    assert shown["normalize_observ"].bool_value is True
    assert shown["layers"].string_value == "[64, 64]"
    assert shown["env_kwargs"].string_value == '{"g": 9.81}'


def test_import_needs_neither_tensorboard_nor_tensorflow():
    code = (
        "import sys, agents.runs.metrics;"
        "sys.exit('tensorboard' in sys.modules or 'tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
