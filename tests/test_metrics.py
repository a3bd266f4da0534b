import json
import os

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from agents.runs.metrics import Metrics, read_metrics
from agents.runs.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path)
    run.left_open = []
    yield run
    for metrics in run.left_open:
        metrics.close()


def start_metrics(run, step):
    """Metrics of a process that is killed later: they are not closed before the end of the test."""
    metrics = Metrics(run, step)
    run.left_open.append(metrics)
    return metrics


def write(run, start, steps):
    metrics = start_metrics(run, start)
    metrics.config({"seed": 7, "layers": (64, 64)})
    for step in steps:
        metrics.scalars(step, {"losses/policy": np.float32(step / 8), "episode/return": -1.5})
        metrics.scalars(step, {"eval/return_mean": step + 0.5})
        metrics.histograms(step, {"rollout/reward": np.arange(step, dtype=np.float32)})


def events(folder):
    """What TensorBoard shows, by tag: its plugin, and arrays by step."""
    accumulator = EventAccumulator(str(folder), {"tensors": 0})
    accumulator.Reload()
    return {
        tag: (
            accumulator.SummaryMetadata(tag).plugin_data.plugin_name,
            [(event.step, make_ndarray(event.tensor_proto)) for event in accumulator.Tensors(tag)],
        )
        for tag in accumulator.Tags()["tensors"]
    }


def steps_of(folder, tag):
    return [step for step, _ in events(folder)[tag][1]]


def test_lines_hold_step_time_and_scalars(run):
    write(run, 0, [100, 200])
    rows = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    assert rows == read_metrics(run.metrics_file)
    assert [row.pop("step") for row in rows] == [100, 100, 200, 200]
    times = [row.pop("wall_time") for row in rows]
    assert times == sorted(times) and times[0] > 1.6e9
    assert rows[2:] == [{"losses/policy": 25.0, "episode/return": -1.5}, {"eval/return_mean": 200.5}]


def test_tensorboard_shows_everything_at_once_even_of_a_process_that_was_killed(run):
    write(run, 0, [100, 200])
    train, evaluation = events(run.train_events), events(run.eval_events)
    assert set(train) == {"losses/policy", "episode/return", "rollout/reward", "configuration"}
    assert train["losses/policy"] == ("scalars", [(100, 12.5), (200, 25.0)])
    assert set(evaluation) == {"eval/return_mean"}
    assert evaluation["eval/return_mean"] == ("scalars", [(100, 100.5), (200, 200.5)])
    plugin, [(_, text)] = train["configuration"]
    assert plugin == "text"
    assert b"| seed | 7 |" in text.item() and b"| layers | (64, 64) |" in text.item()


@pytest.mark.parametrize(
    "numbers",
    [
        np.random.default_rng(0).normal(size=(20, 3)),
        np.arange(5),
        np.array(3.0),
        np.array([True, False]),
        np.full(4, 1e30, np.float32),
        np.array([1.0, np.nan, 2.0, np.inf]),
        np.zeros(0),
    ],
)
def test_histograms_count_all_finite_numbers(run, numbers):
    metrics = start_metrics(run, 0)
    metrics.histograms(5, {"numbers": numbers})
    plugin, [(step, rows)] = events(run.train_events)["numbers"]
    assert (plugin, step) == ("histograms", 5)
    left, right, counts = rows.T
    finite = numbers[np.isfinite(numbers)].astype(np.float64)
    assert counts.sum() == finite.size
    np.testing.assert_array_equal(left[1:], right[:-1])
    for low, high, count in rows[:-1]:
        assert count == np.sum((finite >= low) & (finite < high))


def test_going_on_removes_what_is_later(run):
    write(run, 0, [100, 200, 300])
    write(run, 200, [300, 400])
    assert [row["step"] for row in read_metrics(run.metrics_file)] == [100, 100, 200, 200, 300, 300, 400, 400]
    assert steps_of(run.train_events, "losses/policy") == [100, 200, 300, 400]
    assert steps_of(run.train_events, "rollout/reward") == [100, 200, 300, 400]
    assert steps_of(run.eval_events, "eval/return_mean") == [100, 200, 300, 400]


def test_going_on_from_the_start_removes_everything(run):
    write(run, 0, [100])
    write(run, 0, [])
    assert run.metrics_file.read_text() == ""
    assert "losses/policy" not in events(run.train_events)


def cut_off(path, number):
    os.truncate(path, path.stat().st_size - number)


@pytest.mark.parametrize("number", [1, 5, 40])
def test_going_on_after_a_line_was_left_unfinished(run, number):
    write(run, 0, [100, 200])
    cut_off(run.metrics_file, number)
    whole = 3 + (number == 1)  # Without its line break the last one is still whole.
    assert len(read_metrics(run.metrics_file)) == whole
    write(run, 200, [300])
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    assert [row["step"] for row in lines] == [100, 100, 200, 200][:whole] + [300, 300]


def test_going_on_after_the_very_first_line_was_left_unfinished(run):
    run.metrics_file.write_text('{"step": 100, "wall_')
    write(run, 0, [100])
    assert [json.loads(line)["step"] for line in run.metrics_file.read_text().splitlines()] == [100, 100]


@pytest.mark.parametrize("number", [1, 6, 100])
def test_going_on_after_an_event_was_left_unfinished(run, number):
    write(run, 0, [100, 200])
    [path] = run.train_events.iterdir()
    cut_off(path, number)
    write(run, 200, [300])
    assert steps_of(run.train_events, "losses/policy") == [100, 200, 300]
    assert steps_of(run.train_events, "rollout/reward") == [100, 300]


def test_going_on_after_being_killed_while_removing(run):
    write(run, 0, [100])
    for folder in (run.path, run.train_events, run.eval_events):
        for path in [path for path in folder.iterdir() if path.is_file()]:
            (folder / "unfinished").write_bytes(path.read_bytes()[:-3])
    write(run, 100, [200])
    assert steps_of(run.train_events, "losses/policy") == [100, 200]
    assert [row["step"] for row in read_metrics(run.metrics_file)] == [100, 100, 200, 200]
    assert not list(run.path.rglob("unfinished"))


def test_there_may_be_no_lines_yet(run):
    assert read_metrics(run.metrics_file) == []


def test_closing_writes_out_everything(run):
    metrics = Metrics(run, 0)
    metrics.config({"seed": 7})
    metrics.close()
    assert "configuration" in events(run.train_events)
