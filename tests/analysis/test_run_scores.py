import numpy as np
import pytest

from agents.analysis.run_scores import read_scores
from agents.errors import UsageError
from tests.analysis.synthetic_runs import training_rows, write_run


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
