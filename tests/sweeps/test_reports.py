import csv

import pytest

from agents.sweeps import reports
from agents.sweeps.reports import best_trial, csv_text, describe_result, table, write_reports
from agents.sweeps.trial_result import TrialResult
from tests.sweeps.fake_training import new_sweep, train, train_trials

SETTINGS = {"learning_rate": 0.00012345, "layers": [64, 64], "activation": "tanh"}
RESULTS = [
    TrialResult(0, "complete", -150.25, 1000, SETTINGS),
    TrialResult(1, "pruned", -900.0, 400, {**SETTINGS, "learning_rate": 0.5}),
    TrialResult(2, "failed", None, 0, SETTINGS, "The loss is nan, somewhere."),
    TrialResult(3, "complete", -120.0, 1000, {**SETTINGS, "layers": [8]}),
    TrialResult(4, "running", None, 0, {}),
]


def test_the_best_trial_is_complete():
    assert best_trial(RESULTS).number == 3
    assert best_trial(RESULTS[1:3]) is None and best_trial([]) is None


def test_the_table_as_csv():
    rows = list(csv.DictReader(csv_text(RESULTS).splitlines()))
    assert [row["trial"] for row in rows] == ["3", "0", "1", "2", "4"]
    assert rows[1] == {
        "trial": "0", "state": "complete", "score": "-150.25", "step": "1000", "learning_rate": "0.00012345",
        "layers": "64,64", "activation": "tanh", "run": "trial-0000", "cause": "",
    }  # fmt: skip
    assert rows[3]["cause"] == "The loss is nan, somewhere." and rows[3]["score"] == ""


def test_the_table_of_the_console_has_the_best_trials_side_by_side():
    assert table(RESULTS) == [
        "               trial-0003  trial-0000  trial-0001",
        "score              -120.0      -150.2      -900.0",
        "state            complete    complete      pruned",
        "learning_rate    0.000123    0.000123         0.5",
        "layers                  8       64,64       64,64",
        "activation           tanh        tanh        tanh",
    ]


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (0, "Trial 0 complete with score -150.2 at step 1,000 (best: -120.0 of trial 3)"),
        (2, "Trial 2 failed: The loss is nan, somewhere. (best: -120.0 of trial 3)"),
    ],
)
def test_a_line_tells_how_a_trial_ended(number, line):
    assert describe_result(RESULTS, number) == line


def test_files_are_written_without_trials_and_with_importances_of_many(tmp_path, monkeypatch):
    sweep, drawn = new_sweep(tmp_path, eval_interval=1000), []
    draw = reports.draw_sweep

    def drawing(results, space, importances, title):
        drawn.append(importances)
        return draw(results, space, importances, title)

    monkeypatch.setattr(reports, "draw_sweep", drawing)
    write_reports(sweep)
    train_trials(sweep, 25, train)
    write_reports(sweep)
    assert (sweep.path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert len((sweep.path / "results.csv").read_text().splitlines()) == 26
    assert drawn[0] == {}
    # Scores depend on nothing else.
    assert max(drawn[1], key=drawn[1].get) == "learning_rate"
    assert sum(drawn[1].values()) == pytest.approx(1)


def test_a_full_disk_is_a_warning(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    sweep = new_sweep(tmp_path)
    monkeypatch.setattr(reports, "write_atomically", full)
    with pytest.warns(UserWarning, match="No space left"):
        write_reports(sweep)
