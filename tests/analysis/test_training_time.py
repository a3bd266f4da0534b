import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.analysis.training_time import elapsed_minutes
from tests.analysis.synthetic_runs import training_rows


def later(rows, seconds):
    return [{**row, "wall_time": row["wall_time"] + seconds} for row in rows]


def test_time_starts_with_the_first_iteration_and_includes_evaluations():
    rows = training_rows([1, 2], interval=1000, rate=50, evaluation=5)
    np.testing.assert_allclose(elapsed_minutes(rows) * 60, [20, 25, 45, 50])


def test_no_rows():
    assert elapsed_minutes([]).shape == (0,)


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


def test_rows_without_a_rate():
    rows = [{"step": step, "wall_time": 10.0 * step, "eval/return_mean": 0.0} for step in (1, 2)]
    np.testing.assert_allclose(elapsed_minutes(rows) * 60, [0, 10])
