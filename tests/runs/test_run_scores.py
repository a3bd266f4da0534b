import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import UsageError
from agents.runs.comparison import elapsed_minutes, read_scores
from tests.runs.synthetic_runs import training_rows, write_run


def test_the_points_of_a_metric(tmp_path):
    rows = training_rows([-3, np.nan, -1], rate=50, evaluation=5)
    scores = read_scores(write_run(tmp_path / "a", rows, seed=3), "eval/return_mean")
    assert (scores.name, scores.settings["seed"], scores.rate) == ("a", 3, 50)
    np.testing.assert_array_equal(scores.steps, [1000, 3000])
    np.testing.assert_array_equal(scores.values, [-3, -1])
    np.testing.assert_allclose(scores.minutes * 60, [25, 70])
    assert scores.positions("steps") is scores.steps
    assert scores.positions("minutes") is scores.minutes


def test_a_step_that_occurs_twice_counts_once(tmp_path):
    rows = training_rows([1, 2]) + training_rows([3], first=1000, start=1e9 + 100)
    scores = read_scores(write_run(tmp_path / "a", rows), "eval/return_mean")
    np.testing.assert_array_equal(scores.steps, [1000, 2000])
    np.testing.assert_array_equal(scores.values, [1, 3])
    assert (np.diff(scores.minutes) > 0).all()


def test_a_run_without_the_metric_has_no_points(tmp_path):
    for name, rows in (("a", []), ("b", training_rows([1]))):
        scores = read_scores(write_run(tmp_path / name, rows), "losses/value")
        assert scores.steps.shape == scores.minutes.shape == scores.values.shape == (0,)
    (tmp_path / "b" / "metrics.jsonl").unlink()
    assert np.isnan(read_scores(write_run(tmp_path / "c", []), "losses/value").rate)


def test_a_damaged_configuration_raises(tmp_path):
    run = write_run(tmp_path / "a", [])
    run.config_file.write_text("stepps: 3\n")
    with pytest.raises(UsageError, match="unknown setting 'stepps' in .*config.yaml"):
        read_scores(run, "eval/return_mean")


def later(rows, seconds):
    return [{**row, "wall_time": row["wall_time"] + seconds} for row in rows]


def test_time_starts_with_the_first_iteration_and_includes_evaluations():
    rows = training_rows([1, 2], interval=1000, rate=50, evaluation=5)
    np.testing.assert_allclose(elapsed_minutes(rows) * 60, [20, 25, 45, 50])
    rows = [{"step": step, "wall_time": 10.0 * step, "eval/return_mean": 0.0} for step in (1, 2)]
    np.testing.assert_allclose(elapsed_minutes(rows) * 60, [0, 10])
    assert elapsed_minutes([]).shape == (0,)


def test_time_before_an_evaluation_that_comes_before_the_first_report():
    evaluation = {"step": 1000, "wall_time": 80.0, "eval/return_mean": 0.0}
    report = {"step": 1500, "wall_time": 90.0, "perf/steps_per_second": 50.0}
    np.testing.assert_allclose(elapsed_minutes([evaluation, report]) * 60, [20, 30])


@given(
    durations=st.tuples(st.floats(1, 500), st.floats(0.1, 100)),
    index=st.integers(1, 11),
    pause=st.floats(1e5, 1e8),
)
@settings(deadline=None)
def test_pauses_do_not_count_wherever_a_run_was_resumed(durations, index, pause):
    iteration, evaluation = durations
    rows = training_rows([0] * 6, interval=1000, rate=1000 / iteration, evaluation=evaluation)
    resumed = rows[:index] + later(rows[index:], pause)
    np.testing.assert_allclose(elapsed_minutes(resumed), elapsed_minutes(rows), rtol=1e-3)


@pytest.mark.parametrize("evaluation", [1, 300])
def test_evaluations_are_no_pauses_however_long(evaluation):
    rows = training_rows([0] * 4, interval=100, rate=100, evaluation=evaluation)
    np.testing.assert_allclose(elapsed_minutes(rows)[-1] * 60, 4 * (1 + evaluation), rtol=1e-6)


def test_evaluations_may_become_longer():
    rows = training_rows([0] * 3, evaluation=1)
    rows += later(training_rows([0] * 3, evaluation=40, first=3000), 33)
    np.testing.assert_allclose(elapsed_minutes(rows)[-1] * 60, 63 + 120, rtol=1e-6)


def test_a_clock_that_was_set_back_counts_as_nothing():
    rows = training_rows([0] * 3)
    rows = rows[:3] + later(rows[3:], -5000)
    assert (np.diff(elapsed_minutes(rows)) >= 0).all()
